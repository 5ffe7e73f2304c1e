#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "unisono/any_value.h"
#include "unisono/export.h"
#include "unisono/objects.h"
#include "unisono/results.h"

// at::Tensor in objects: alone, and in whatever objects are made of (maps, vectors, optionals, structs with UNISONO_FIELDS). Ranks may have tensors
// of different dtype and shape.

namespace unisono {

/// Carries dtype, shape and elements, row by row, from whatever strides and device, and whether the tensor is defined. What is read is a contiguous
/// tensor of the cpu that requires no gradient; cast_data_device moves it. Beside the dtypes of DType the float8 types and complex half travel.
/// `write` throws InvalidArgument for sparse, nested and quantized tensors, and for those without elements of their own (meta); `read` ProtocolError
/// for what `write` does not make, before it allocates anything for it.
template <>
struct UNISONO_API object_traits<at::Tensor> {
  static constexpr std::string_view name = "at::Tensor";
  static void write(ObjectWriter& out, const at::Tensor& tensor);
  static at::Tensor read(ObjectReader& in);
};

/// A copy of a value that is a tensor (AnyValue::is_tensor), as broadcast_any gives it; InvalidArgument for any other. AnyValue(tensor) makes one.
[[nodiscard]] UNISONO_API at::Tensor tensor_of(const AnyValue& value);

}  // namespace unisono
