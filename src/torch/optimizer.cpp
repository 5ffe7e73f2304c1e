#include "unisono/torch/optimizer.h"

#include <fmt/format.h>

#include "torch/optimizer_state.h"
#include "unisono/context.h"
#include "unisono/error.h"

namespace unisono {

std::unique_ptr<torch::optim::Optimizer> auto_optim(std::unique_ptr<torch::optim::Optimizer> optimizer, const AutoOptimOptions& options) {
  if (!optimizer) throw InvalidArgument("there is no optimizer: the pointer is null", {.operation = "auto_optim"});
  if (options.bucket_cap_mb < 1) {
    throw InvalidArgument(fmt::format("buckets cannot be of {} MiB", options.bucket_cap_mb), {.operation = "auto_optim"});
  }
  const ProcessGroup group = options.group ? *options.group : world();
  if (group.size() == 1) return optimizer;
  libtorch::check_alike(*optimizer, group, "auto_optim");
  at::Tensor state;
  libtorch::on_all(group, "auto_optim", [&] {
    if (group.rank() == 0) state = libtorch::bytes_of(*optimizer);
  });
  state = libtorch::broadcast_bytes(std::move(state), 0, group);
  libtorch::on_all(group, "auto_optim", [&] {
    if (group.rank() != 0) libtorch::load_bytes(*optimizer, state);
  });
  if (!options.shard_state && !options.average_gradients) return optimizer;
  return std::make_unique<DistributedOptimizer>(std::move(optimizer), options);
}

void consolidate_state(torch::optim::Optimizer& optimizer, Rank to) {
  if (auto* distributed = dynamic_cast<DistributedOptimizer*>(&optimizer)) distributed->consolidate_state(to);
}

}  // namespace unisono
