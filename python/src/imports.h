#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string_view>

#include "dlpack.h"
#include "unisono/tensor.h"

// The other libraries of a Python program: looked for where the program has imported them, imported by us only where their arrays are to be made.

namespace unisono::python {

namespace nb = nanobind;

/// The module numpy, where it can be imported; null elsewhere.
nb::handle numpy();
bool is_ndarray(nb::handle object);
/// Whether it is an array of numpy.ma, whose mask is no part of its elements.
bool is_masked_array(nb::handle object);
bool is_numpy_scalar(nb::handle object);
bool is_torch_tensor(nb::handle object);
/// What the object's type offers to C; null where it offers nothing. Known for each type after the first look.
const dlpack::Exchange* exchange_of(nb::handle object);
/// Arrays that nobody may write to, though they do not say so by DLPack.
bool is_immutable(nb::handle object);
bool is_jax(nb::handle object);
/// The stream that the object's library puts its work on just now; the device's default stream where it does not say.
void* current_stream_of(nb::handle object, int device);
/// Of the array interface: "<f4".
std::optional<DType> dtype_of_typestr(std::string_view type);
/// A new reference that is never given back: what is imported stays until the process ends.
nb::handle imported(const char* module);

/// Returns an object that is made when it is first asked for, and stays until the process ends. `known`: a static handle. A static local that C++
/// fills does not do: a thread that waits for it keeps the interpreter's lock, which the thread that fills it gives up meanwhile and needs back.
template <class Make>
nb::handle made_once(nb::handle& known, Make&& make) {
  if (known.ptr() == nullptr) {
    nb::object made = make();
    if (known.ptr() == nullptr) known = made.release();  // another thread may have been faster
  }
  return known;
}

}  // namespace unisono::python
