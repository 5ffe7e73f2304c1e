#pragma once

#include <torch/nn/module.h>

#include "unisono/export.h"
#include "unisono/process_group.h"

// Averages of gradients, for models that auto_model has not wrapped.

namespace unisono {

/// Replaces the gradient of every parameter by the average of all ranks' gradients. Call it between
/// `backward` and `step`.
///
/// Gradients travel together, one all_reduce for each dtype and 25 MiB. A rank without a gradient
/// that others have counts as one of zeros, and gets the average; parameters that have no gradient
/// on any rank stay without. auto_model does the same while the backward pass goes on, which is
/// faster.
///
/// ```cpp
/// optimizer.zero_grad();
/// loss(net->forward(input), target).backward();
/// average_gradients(*net);
/// optimizer.step();
/// ```
///
/// @throws Mismatch on all ranks for models that are not alike
/// @throws InvalidArgument, naming the parameter, for a sparse gradient on any rank
UNISONO_API void average_gradients(const torch::nn::Module& module, const ProcessGroup& group = current_world(), const CallOptions& options = {});

}  // namespace unisono
