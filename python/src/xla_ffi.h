#pragma once

#include <cstddef>
#include <cstdint>

// The structures of XLA's foreign function interface that a handler meets (openxla/xla, xla/ffi/api/c_api.h, version 0.0 to 0.3), so that no jaxlib
// is needed to build. The interface adds fields at the end of structures, and each begins with its own size. tests/python/xla_ffi_layout.cpp compares
// them with a jaxlib's header.

namespace unisono::python::xla {

enum class DataType : int {
  pred = 1,
  s8 = 2,
  s16 = 3,
  s32 = 4,
  s64 = 5,
  u8 = 6,
  u16 = 7,
  u32 = 8,
  u64 = 9,
  f16 = 10,
  f32 = 11,
  f64 = 12,
  c64 = 15,
  bf16 = 16,
  token = 17,
  c128 = 18
};
enum class AttributeType : int { array = 1, dictionary = 2, scalar = 3, string = 4 };
enum class Code : int {
  cancelled = 1,
  invalid_argument = 3,
  deadline_exceeded = 4,
  failed_precondition = 9,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  data_loss = 15
};

struct Extension {
  std::size_t struct_size;
  int type;
  Extension* next;
};
inline constexpr int metadata_extension = 1;

struct Version {
  std::size_t struct_size;
  Extension* extensions;
  int major, minor;
};
struct Metadata {
  std::size_t struct_size;
  Version version;
  std::uint32_t traits;
};
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

struct Error;  // XLA's own
struct ErrorArguments {
  std::size_t struct_size;
  Extension* extensions;
  const char* message;
  Code code;
};
struct Api {
  std::size_t struct_size;
  Extension* extensions;
  Version version;
  const void* internal;
  Error* (*create_error)(ErrorArguments* arguments);
};

struct Buffer {
  std::size_t struct_size;
  Extension* extensions;
  DataType dtype;
  void* data;
  std::int64_t rank;
  std::int64_t* dims;
};
/// The arguments of a call, or its results.
struct Buffers {
  std::size_t struct_size;
  Extension* extensions;
  std::int64_t size;
  int* types;
  Buffer** buffers;
};
struct Text {
  const char* data;
  std::size_t size;
};
struct Scalar {
  DataType dtype;
  const void* value;
};
struct Attributes {
  std::size_t struct_size;
  Extension* extensions;
  std::int64_t size;
  AttributeType* types;
  Text** names;
  void** values;  // a Scalar or a Text each
};

struct CallFrame {
  std::size_t struct_size;
  Extension* extensions;
  const Api* api;
  void* context;
  int stage;
  Buffers arguments;
  Buffers results;
  Attributes attributes;
};

/// The one handler: every operation of unisono.jax, by the attributes of the call.
Error* handle(CallFrame* frame) noexcept;

}  // namespace unisono::python::xla
