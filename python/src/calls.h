#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <utility>
#include <vector>

#include "arguments.h"
#include "buffer.h"
#include "unisono/detail/request.h"
#include "unisono/detail/typed_edge.h"
#include "work.h"

// From the arguments of a collective to its request.

namespace unisono::python {

/// Returns the name of the function, which is that in C++.
inline const char* name_of(Operation operation) { return traits_of(operation).name.data(); }

inline detail::Request request_of(Operation operation, const TensorView& in, const TensorView& out) { return {operation, in, out}; }
inline detail::Request request_of(Operation operation, const TensorView& in, const TensorView& out, Combination op) {
  return {.operation = operation, .in = in, .out = out, .op = op.op, .custom = std::move(op.custom), .factor = op.factor};
}

inline const std::optional<void*>& stream_of(const Buffer& one, const Buffer& other) { return one.stream() ? one.stream() : other.stream(); }

inline Memory memory_of(Buffer buffer, nb::object result) {
  Memory memory{.result = std::move(result)};
  memory.buffers.push_back(std::move(buffer));
  return memory;
}
inline Memory memory_of(Buffer one, Buffer other, nb::object result) {
  Memory memory = memory_of(std::move(one), std::move(result));
  memory.buffers.push_back(std::move(other));
  return memory;
}

inline bool is_here(Rank rank, const ProcessGroup& group) { return detail::rank_is(rank, group); }
inline std::size_t size_of_group(const ProcessGroup& group) { return static_cast<std::size_t>(group.size()); }

/// Of an array that cannot be written to (JAX): the result is a new one, as that of a number is.
bool is_returned(nb::handle x);

}  // namespace unisono::python
