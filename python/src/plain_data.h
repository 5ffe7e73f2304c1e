#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <span>
#include <vector>

// Objects of Python as data, without pickle: nothing of them is executed where they are read.

namespace unisono::python {

namespace nb = nanobind;

/// None, a bool, a number, a str, bytes, a path, an array, or a list, tuple or dict of such, as MessagePack. InvalidArgument, in the name of the
/// operation, for anything else.
std::vector<std::byte> data_of_object(nb::handle x, const char* operation);
/// A copy of what was written. ProtocolError for bytes that are no such data.
nb::object object_of_data(std::span<const std::byte> bytes);

}  // namespace unisono::python
