#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "unisono/any_value.h"
#include "unisono/export.h"
#include "unisono/objects.h"
#include "unisono/results.h"

// at::Tensor in objects: alone, and in everything that objects are made of (maps, vectors,
// optionals, structs with UNISONO_FIELDS). Ranks may have tensors of different dtype and shape.

namespace unisono {

/// Carries dtype, shape and elements, row by row, from any strides and device, and whether the
/// tensor is defined.
///
/// The tensor that is read is contiguous, on the cpu, and requires no gradient; cast_data_device
/// moves it. The float8 types and complex half travel as well as those that a DType stands for.
template <>
struct UNISONO_API object_traits<at::Tensor> {
  static constexpr std::string_view name = "at::Tensor";
  /// Writes a tensor. InvalidArgument for sparse, nested and quantized tensors, and for those
  /// without elements of their own (meta).
  static void write(ObjectWriter& out, const at::Tensor& tensor);
  /// Reads a tensor. ProtocolError for bytes that `write` does not make, before anything is
  /// allocated for them.
  static at::Tensor read(ObjectReader& in);
};

/// Returns a copy of a value that is a tensor (AnyValue::is_tensor), as broadcast_any gives it;
/// InvalidArgument for any other value. AnyValue(tensor) makes one.
[[nodiscard]] UNISONO_API at::Tensor tensor_of(const AnyValue& value);

}  // namespace unisono
