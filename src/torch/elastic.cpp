#include "unisono/torch/elastic.h"

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "torch/optimizer_state.h"
#include "unisono/error.h"
#include "unisono/torch/optimizer.h"
#include "unisono/torch/tensor.h"

namespace unisono {
namespace {

/// Lists a tensor, wherever it lies at the time of a call: one on a device by a copy in the host's memory.
void list_tensor(ElasticState& state, const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  const auto host = std::make_shared<at::Tensor>();
  state.buffer(
      name,
      [tensor, host] {
        const at::NoGradGuard no_grad;
        *host = tensor.is_cpu() ? tensor : tensor.detach().to(at::kCPU);
        return detail::writable_view_of(*host);
      },
      [tensor, host](bool is_new) {
        const at::NoGradGuard no_grad;
        if (is_new && !host->is_same(tensor)) tensor.copy_(*host);
        *host = at::Tensor();
      });
}

/// Returns text such as "optimizer torch::optim::SGD of 4 + 4 parameters".
std::string described(const torch::optim::Optimizer& optimizer) {
  std::vector<std::size_t> counts;
  for (const auto& group : optimizer.param_groups()) counts.push_back(group.params().size());
  return fmt::format("optimizer {} of {} parameters", libtorch::type_of(optimizer), fmt::join(counts, " + "));
}

std::vector<std::byte> write_optimizer(const torch::optim::Optimizer& optimizer) {
  const at::Tensor bytes = libtorch::bytes_of(optimizer);
  if (bytes.numel() == 0 && !optimizer.state().empty()) {
    throw InvalidArgument(fmt::format("{} has state but does not write it", libtorch::type_of(optimizer)),
                          {.operation = "synchronize", .hint = "override its save and load"});
  }
  const auto* begin = static_cast<const std::byte*>(bytes.const_data_ptr());
  return {begin, begin + bytes.numel()};
}

std::function<void()> read_optimizer(torch::optim::Optimizer& optimizer, std::span<const std::byte> bytes) {
  at::Tensor copy = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) std::memcpy(copy.mutable_data_ptr(), bytes.data(), bytes.size());
  return [&optimizer, copy = std::move(copy)] { libtorch::load_bytes(optimizer, copy); };
}

}  // namespace

void detail::list_training(ElasticState& state, const torch::nn::Module& model, torch::optim::Optimizer* optimizer) {
  if (dynamic_cast<const DistributedOptimizer*>(optimizer) != nullptr) {
    throw InvalidArgument(
        "an optimizer made by auto_optim with an option belongs to one group, and the members of an elastic job change",
        {.operation = "add_training", .hint = "give LibTorch's optimizer itself: the model of train_elastic averages the gradients"});
  }
  for (const auto& entry : model.named_parameters()) list_tensor(state, entry.key(), entry.value());
  for (const auto& entry : model.named_buffers()) list_tensor(state, entry.key(), entry.value());
  if (optimizer == nullptr) return;
  state.bytes(
      described(*optimizer), [optimizer] { return write_optimizer(*optimizer); },
      [optimizer](std::span<const std::byte> bytes) { return read_optimizer(*optimizer, bytes); });
}

}  // namespace unisono
