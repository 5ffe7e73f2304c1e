#pragma once

#include <ATen/core/Tensor.h>

namespace unisono::libtorch {

/// Returns a contiguous copy on the cpu. Waits for the worker.
at::Tensor fetched(const at::Tensor& remote);
/// Returns a copy of a tensor on the cpu on the worker's device.
at::Tensor moved_to(const at::Tensor& local, const at::Device& device);

/// The kernel of copy_ between tensors of which one at least is remote.
at::Tensor& copy_into(at::Tensor& to, const at::Tensor& from, bool non_blocking);
/// The kernel of _copy_from.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking);
/// The kernel of _local_scalar_dense.
at::Scalar local_scalar(const at::Tensor& tensor);

}  // namespace unisono::libtorch
