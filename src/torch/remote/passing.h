#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

namespace unisono::libtorch {

/// Returns where a remote tensor is, for its worker to find it.
std::vector<std::byte> described_for_worker(const at::Tensor& tensor);
/// Returns the tensor of this worker that was described.
///
/// @throws InvalidArgument in any other process
at::Tensor tensor_of_worker(std::span<const std::byte> description);

}  // namespace unisono::libtorch
