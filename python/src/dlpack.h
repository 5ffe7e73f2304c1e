#pragma once

#include <cstdint>

// The structures of DLPack 1 that arrays of other libraries are handed over in (dmlc/dlpack, include/dlpack/dlpack.h).

namespace unisono::python::dlpack {

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
enum TypeCode : std::uint8_t { signed_integer = 0, unsigned_integer = 1, floating = 2, bfloat = 4, complex = 5, boolean = 6 };

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

/// What a library offers to C in place of calls in Python: the capsule "dlpack_exchange_api" of its array type.
struct Exchange {
  Version version;
  void* previous;
  void* allocate;
  int (*managed_of)(void* python_object, ManagedVersioned** out);
  int (*object_of)(ManagedVersioned* managed, void** out_python_object);
  int (*array_of)(void* python_object, Array* out);  // may be null; the array lasts as long as the object
  int (*current_stream)(std::int32_t device_type, std::int32_t device_index, void** out);
};

}  // namespace unisono::python::dlpack
