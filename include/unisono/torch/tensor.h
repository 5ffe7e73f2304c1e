#pragma once

#include <ATen/core/Tensor.h>

#include "unisono/export.h"
#include "unisono/tensor.h"

// at::Tensor, and so torch::Tensor, is a buffer: every collective, message and parameter function
// takes it, whatever its dtype and strides, on any device that the group's backend serves.
//
// ```cpp
// at::Tensor x = torch::ones({2, 3});
// all_reduce(x.t());                                 // strided, and a temporary handle: x itself is changed
// ```
//
// A handle is enough, even a constant one: the tensor's memory is written to. Autograd records
// nothing of it. The version counter of a tensor that is written to goes up, so that backward
// complains if it has kept the old values.

namespace unisono {

/// Returns the DType of a tensor's elements. InvalidArgument, with its name, for a type that no
/// DType stands for (quantized, float8, sub-byte types).
UNISONO_API DType dtype_of_torch(at::ScalarType type);

/// Returns torch's name of a DType.
UNISONO_API at::ScalarType torch_dtype(DType dtype);

/// Returns a torch device as the library's. InvalidArgument for devices other than cpu and cuda.
UNISONO_API Device device_of_torch(const at::Device& device);

/// Returns a device as torch's.
UNISONO_API at::Device torch_device(Device device);

namespace detail {
/// Returns a view of a tensor. InvalidArgument for an undefined, sparse, nested or otherwise
/// memoryless tensor, for lazy conjugates and negatives, and for a tensor whose elements overlap.
UNISONO_API TensorView view_of_torch(const at::Tensor& tensor);
}  // namespace detail

/// Makes at::Tensor a buffer.
template <>
struct buffer_traits<at::Tensor> {
  static constexpr bool is_handle = true;
  static TensorView view(at::Tensor& tensor) { return detail::view_of_torch(tensor); }
  UNISONO_API static void written(at::Tensor& tensor);
};

}  // namespace unisono
