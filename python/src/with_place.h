#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "arguments.h"
#include "unisono/operation.h"

// Values with the places where they are, which min and max choose among.

namespace unisono::python {

namespace nb = nanobind;

/// Whether the object is a WithPlace of Python: one pair, or an array of them.
bool is_placed(nb::handle x);
/// Carries out a reduction of pairs: one is returned, an array is worked on in place. None where this rank gets no result.
nb::object reduce_pairs(Operation operation, nb::handle x, nb::handle op, std::optional<Rank> root, const Trailing& trailing);
/// Starts an all_reduce of an array of pairs.
nb::object start_pairs(Operation operation, nb::handle x, nb::handle op, const Trailing& trailing);

}  // namespace unisono::python
