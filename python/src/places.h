#pragma once

#include <nanobind/nanobind.h>

#include <source_location>

#include "unisono/detail/place.h"

// The lines of a program in Python, as the places of its calls.

namespace unisono::python {

namespace nb = nanobind;

/// Returns the line of the program that the calling thread is in: the innermost frame that belongs neither to this package nor to what is installed
/// beside it, or else the innermost one of what is installed. Line 0 where there is none. With the interpreter lock.
std::source_location place_of_program() noexcept;

/// The same as Python's Place; None for line 0.
nb::object as_place(const std::source_location& where);

void bind_places(nb::module_& m);

}  // namespace unisono::python
