#pragma once

#include "unisono/torch/compression.h"

namespace unisono::libtorch {

/// Implements algorithms 1 and 2 of Vogels, Karimireddy, Jaggi: PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization,
/// NeurIPS 2019.
Compression::Hook power_sgd_hook(const PowerSgdOptions& options);

}  // namespace unisono::libtorch
