#include "unisono/torch/gradients.h"

#include <algorithm>
#include <cstdint>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "torch/gradients.h"
#include "unisono/collectives.h"
#include "unisono/error.h"
#include "unisono/parameters.h"
#include "unisono/torch/tensor.h"

namespace unisono {

void libtorch::average_gradients(const std::vector<at::Tensor>& parameters, const Averaging& how, const ProcessGroup& group,
                                 const CallOptions& options) {
  std::vector<std::uint8_t> has(parameters.size());
  for (std::size_t i = 0; i < has.size(); ++i) {
    has[i] = !parameters[i].grad().defined() ? 0 : parameters[i].grad().is_sparse() ? 2 : 1;
  }
  if (has.empty()) return;
  all_reduce(has, ReduceOp::max, group, options);
  if (const auto sparse = std::ranges::find(has, 2); sparse != has.end()) {
    const auto i = static_cast<std::size_t>(sparse - has.begin());
    throw InvalidArgument(fmt::format("the gradient of parameter {} is sparse, and sparse gradients are not averaged",
                                      how.names.empty() ? std::to_string(i) : how.names[i]),
                          {.operation = how.operation, .hint = "make the embedding with sparse(false)"});
  }
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (std::size_t i = 0; i < has.size(); ++i) {
    if (has[i] == 0) continue;
    if (!parameters[i].grad().defined()) parameters[i].mutable_grad() = at::zeros_like(parameters[i]);
    gradients.push_back(parameters[i].grad());
  }
  all_reduce_params(gradients, {.bucket_size_mb = how.bucket_cap_mb, .op = ReduceOp::avg}, group, options);
}

void average_gradients(const torch::nn::Module& module, const ProcessGroup& group, const CallOptions& options) {
  libtorch::Averaging how{.operation = "average_gradients"};
  std::vector<at::Tensor> parameters;
  for (const auto& entry : module.named_parameters()) {
    how.names.push_back(entry.key());
    parameters.push_back(entry.value());
  }
  libtorch::average_gradients(parameters, how, group, options);
}

}  // namespace unisono
