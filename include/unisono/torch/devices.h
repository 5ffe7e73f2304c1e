#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <vector>

#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/torch/detail/tensor_data.h"

// The device that data lies on, and the device on which a group wants it.
//
// Data is at::Tensor, and vectors, deques, lists, arrays, pairs, tuples and maps of data, in any
// depth. Anything else does not compile.
//
// ```cpp
// auto batch = cast_data_device(host_batch, get_comm_device());   // a std::map<std::string, at::Tensor>, say
// ```

namespace unisono {

/// Returns the device that all tensors of the data are on.
///
/// @throws InvalidArgument, saying where in the data, for tensors of different devices, undefined
///   ones, and anything empty
template <class D>
[[nodiscard]] at::Device get_data_device(const D& data) {
  detail::refuse_as_tensor_data<D>();
  return detail::device_of_leaves(detail::leaves_of(data));
}

/// Returns the device on which tensors are for the group's collectives: the current CUDA device for
/// nccl, the cpu for any other backend.
[[nodiscard]] UNISONO_API at::Device get_comm_device(const ProcessGroup& group = current_world());

/// Returns the data with every tensor on the device. A tensor that is there already is the same
/// tensor and no copy. Autograd sees Tensor::to.
///
/// @throws InvalidArgument for undefined tensors and anything empty
template <class D>
[[nodiscard]] D cast_data_device(const D& data, const at::Device& device) {
  detail::refuse_as_tensor_data<D>();
  std::vector<at::Tensor> moved = detail::leaves_on(detail::leaves_of(data), device);
  auto next = moved.begin();
  return detail::tensor_data<D>::replace(data, next);
}

/// Copies every tensor of the data into its partner in `out`. Autograd records nothing.
///
/// The tensors of `out` lie on the device and have the sizes, keys, shapes and dtypes of the data.
///
/// @throws InvalidArgument, saying where, if they do not; nothing is written then
template <class D, class Out>
void cast_data_device(const D& data, const at::Device& device, const Out& out) {
  detail::refuse_as_tensor_data<D>();
  static_assert(std::same_as<D, Out>, "unisono: `out` is of another type than the data");
  std::vector<detail::TensorPair> pairs;
  detail::tensor_data<D>::match(data, out, {}, pairs);
  detail::fill_leaves(pairs, device);
}

}  // namespace unisono
