#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "unisono/process_group.h"
#include "unisono/torch/data_parallel.h"

namespace unisono::libtorch {

/// Returns text such as "float32 [10, 5] on cpu".
std::string describe(at::ScalarType dtype, at::IntArrayRef sizes, const at::Device& device);

/// Copies the tensors of rank 0 to all ranks, packed by dtype into a few large broadcasts. All ranks have the same dtypes and sizes.
void broadcast_tensors(const std::vector<at::Tensor>& tensors, const ProcessGroup& group);

/// Checks the model and the options on all ranks, moves the model to device(), and compares it with that of rank 0. Throws InvalidArgument or
/// Mismatch on all ranks alike.
void prepare_model(torch::nn::Module* module, const AutoModelOptions& options, const ProcessGroup& group);

}  // namespace unisono::libtorch
