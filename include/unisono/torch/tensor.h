#pragma once

#include <ATen/core/Tensor.h>

#include "unisono/export.h"
#include "unisono/tensor.h"

// at::Tensor (and so torch::Tensor) is a buffer: every collective, message and parameter function takes it, whatever its dtype, its strides and the
// device that the group's backend serves. A handle is enough, be it const: what is written to is the tensor's memory. Autograd records nothing of it,
// and the version counter of a tensor that is written to goes up, so that backward complains where it has kept the old values.

namespace unisono {

/// InvalidArgument, naming the dtype, for what no DType stands for (quantized, float8, sub-byte types).
UNISONO_API DType dtype_of_torch(at::ScalarType type);
UNISONO_API at::ScalarType torch_dtype(DType dtype);
/// InvalidArgument for devices other than cpu and cuda.
UNISONO_API Device device_of_torch(const at::Device& device);
UNISONO_API at::Device torch_device(Device device);

namespace detail {
/// InvalidArgument for an undefined, sparse, nested or otherwise memoryless tensor, for lazy conjugates and negatives, and for one whose elements
/// overlap.
UNISONO_API TensorView view_of_torch(const at::Tensor& tensor);
}  // namespace detail

template <>
struct buffer_traits<at::Tensor> {
  static constexpr bool is_handle = true;
  static TensorView view(at::Tensor& tensor) { return detail::view_of_torch(tensor); }
  UNISONO_API static void written(at::Tensor& tensor);
};

}  // namespace unisono
