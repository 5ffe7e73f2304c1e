#pragma once

#include <nanobind/nanobind.h>

#include "unisono/any_value.h"

// Values of the kinds that C++ and Python both know.

namespace unisono::python {

namespace nb = nanobind;

/// An array, a number, a text or a path. InvalidArgument, in the name of the operation, for what is none.
AnyValue any_value_of(nb::handle x, const char* operation);
/// The same as an array of NumPy, a number, a str or a Path.
nb::object as_python(AnyValue& value);

}  // namespace unisono::python
