#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "arguments.h"
#include "unisono/tensor.h"

namespace unisono::python {

namespace nb = nanobind;

/// What rank `src` has, on every rank. `label`: what the user called, a string literal.
nb::object broadcast_one(const char* label, nb::handle x, Rank src, const Trailing& trailing);
/// Element r from rank r; with a `dst` None elsewhere.
nb::object gather_all(const char* label, nb::handle x, std::optional<Rank> dst, const Trailing& trailing);

// A line of bytes or numbers, as a call takes it.
inline TensorView line(const std::byte* bytes, std::size_t n) { return {const_cast<std::byte*>(bytes), DType::uint8, n}; }
inline TensorView line(std::span<const std::byte> bytes) { return line(bytes.data(), bytes.size()); }
inline TensorView line(std::span<std::uint64_t> numbers) { return {numbers.data(), DType::uint64, numbers.size()}; }

void bind_object_messages(nb::module_& m);

}  // namespace unisono::python
