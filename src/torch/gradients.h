#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "unisono/process_group.h"

namespace unisono::libtorch {

/// How gradients are averaged.
struct Averaging {
  const char* operation;                ///< the function that the user called
  int bucket_cap_mb = 25;               ///< MiB that travel together
  std::vector<std::string> names = {};  ///< of the parameters, for errors; empty: their numbers
};

/// Averages the gradients of these parameters over the group. Collective. A missing gradient counts as zeros if another rank has one.
void average_gradients(const std::vector<at::Tensor>& parameters, const Averaging& how, const ProcessGroup& group, const CallOptions& options = {});

}  // namespace unisono::libtorch
