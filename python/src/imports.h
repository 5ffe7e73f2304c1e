#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "unisono/tensor.h"

// The other libraries of a Python program: looked for where the program has imported them, imported by us only where their arrays are to be made.

namespace unisono::python {

namespace nb = nanobind;

// The structures of DLPack 1 that arrays of other libraries are handed over in (dmlc/dlpack, include/dlpack/dlpack.h).
namespace dlpack {

struct Version {
  std::uint32_t major, minor;
};
struct Device {
  std::int32_t type, index;
};
enum DeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };
struct ElementType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};

struct Array {
  void* data;
  Device device;
  std::int32_t dimensions;
  ElementType element;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row by row
  std::uint64_t byte_offset;
};
struct Managed {
  Array array;
  void* context;
  void (*deleter)(Managed* self);
};
inline constexpr std::uint64_t read_only = 1;
struct ManagedVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedVersioned* self);
  std::uint64_t flags;
  Array array;
};

/// A library's functions for C, in place of calls in Python: the capsule "dlpack_exchange_api" of its array type.
struct Exchange {
  Version version;
  void* previous;
  void* allocate;
  int (*managed_of)(void* python_object, ManagedVersioned** out);
  int (*object_of)(ManagedVersioned* managed, void** out_python_object);
  int (*array_of)(void* python_object, Array* out);  // may be null; the array lasts as long as the object
  int (*current_stream)(std::int32_t device_type, std::int32_t device_index, void** out);
};

}  // namespace dlpack

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
