#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "unisono/process_group.h"
#include "unisono/torch/data_parallel.h"

namespace unisono::libtorch {

/// "float32 [10, 5] on cpu"
std::string describe(at::ScalarType dtype, at::IntArrayRef sizes, const at::Device& device);

/// The tensors of rank 0 become those of all ranks: packed by dtype, a few large broadcasts. Same dtypes and sizes on all ranks.
void broadcast_tensors(const std::vector<at::Tensor>& tensors, const ProcessGroup& group);

/// Looks whether the model and the options can be worked with, here and on the other ranks, moves the model to device(), and compares it with that of
/// rank 0. Throws on all ranks alike: InvalidArgument, Mismatch.
void prepare_model(torch::nn::Module* module, const AutoModelOptions& options, const ProcessGroup& group);

}  // namespace unisono::libtorch
