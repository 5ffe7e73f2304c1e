#include "torch/optimizer_state.h"

#include <algorithm>

#include <c10/util/Type.h>
#include <fmt/format.h>
#include <torch/serialize.h>

#include "unisono/collectives.h"
#include "unisono/context.h"
#include "unisono/error.h"
#include "unisono/objects.h"
#include "unisono/torch/optimizer.h"
#include "unisono/torch/tensor.h"

namespace unisono::libtorch {

at::Tensor bytes_of(const torch::optim::Optimizer& optimizer) {
  std::vector<char> written;
  torch::serialize::OutputArchive archive(std::make_shared<torch::jit::CompilationUnit>());
  optimizer.save(archive);
  archive.save_to([&](const void* bytes, std::size_t n) {
    written.insert(written.end(), static_cast<const char*>(bytes), static_cast<const char*>(bytes) + n);
    return n;
  });
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(written.size())}, at::kByte);
  std::ranges::copy(written, static_cast<char*>(tensor.data_ptr()));
  if (type_of(optimizer).starts_with("torch::optim::")) return tensor;
  torch::serialize::InputArchive check;
  check.load_from(written.data(), written.size());
  return check.keys().empty() ? at::empty({0}, at::kByte) : tensor;
}

void load_bytes(torch::optim::Optimizer& optimizer, const at::Tensor& bytes) {
  if (bytes.numel() == 0) return;
  const std::vector<at::Tensor> parameters = parameters_of(optimizer);
  torch::serialize::InputArchive archive;
  archive.load_from(static_cast<const char*>(bytes.data_ptr()), static_cast<std::size_t>(bytes.numel()),
                    parameters.empty() ? at::Device(at::kCPU) : parameters.front().device());
  auto before = std::move(optimizer.state());
  optimizer.state().clear();
  try {
    optimizer.load(archive);
  } catch (...) {
    optimizer.state() = std::move(before);
    throw;
  }
}

std::string type_of(const torch::optim::Optimizer& optimizer) { return c10::demangle(typeid(optimizer).name()); }

std::vector<at::Tensor> parameters_of(const torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  return parameters;
}

std::vector<std::string> descriptions_of(const torch::optim::Optimizer& optimizer) {
  std::vector<std::string> all;
  for (std::size_t g = 0; g < optimizer.param_groups().size(); ++g) {
    const std::vector<at::Tensor>& parameters = optimizer.param_groups()[g].params();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      all.push_back(
          fmt::format("parameter {} of group {}: {} {}", i, g, c10::toString(parameters[i].scalar_type()), c10::str(parameters[i].sizes())));
    }
  }
  return all;
}

void check_alike(const torch::optim::Optimizer& optimizer, const ProcessGroup& group, const char* operation) {
  std::vector<std::string> own = descriptions_of(optimizer);
  own.insert(own.begin(), type_of(optimizer));
  const std::vector<std::vector<std::string>> all = all_gather_object(own, group);
  for (std::size_t r = 1; r < all.size(); ++r) {
    const auto [first, other] = std::ranges::mismatch(all[0], all[r]);
    if (first == all[0].end() && other == all[r].end()) continue;
    throw Mismatch(fmt::format("the optimizers differ: rank 0 has {}, rank {} has {}", first == all[0].end() ? "no more parameters" : *first, r,
                               other == all[r].end() ? "no more parameters" : *other),
                   {.operation = operation,
                    .group = group.name(),
                    .rank = group.rank(),
                    .culprit = static_cast<int>(r),
                    .hint = "make the model and its optimizer the same way on all ranks"});
  }
}

at::Tensor broadcast_bytes(at::Tensor tensor, int src, const ProcessGroup& group) {
  const std::int64_t bytes = broadcast(group.rank() == src ? tensor.numel() : std::int64_t{0}, src, group);
  if (group.rank() != src) tensor = at::empty({bytes}, at::kByte);
  broadcast(tensor, src, group);
  return tensor;
}

}  // namespace unisono::libtorch

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
