#include "unisono/torch/data_parallel.h"

#include <ATen/ATen.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "reducer.h"
#include "unisono/collectives.h"
#include "unisono/context.h"
#include "unisono/error.h"
#include "unisono/objects.h"
#include "unisono/torch/memory.h"
#include "unisono/torch/tensor.h"

namespace unisono::libtorch {
namespace {

constexpr std::size_t largest_package = std::size_t{32} << 20;

/// A fault of the model or the options that is independent of the other ranks.
struct Fault {
  std::string what, hint;
};

std::optional<Fault> fault_of(const torch::nn::Module* module, const AutoModelOptions& options) {
  if (module == nullptr) return Fault{"the module holder is empty", "construct the module first"};
  if (!(options.bucket_cap_mb > 0) || !std::isfinite(options.bucket_cap_mb)) {
    return Fault{fmt::format("bucket_cap_mb is {}", options.bucket_cap_mb), "it is a size in MiB, greater than 0"};
  }
  std::string first;
  std::optional<at::Device> device;
  const auto look = [&](const char* kind, const auto& items) -> std::optional<Fault> {
    for (const auto& item : items) {
      const at::Tensor& tensor = item.value();
      if (!device) {
        device = tensor.device();
        first = fmt::format("{} \"{}\"", kind, item.key());
      }
      if (tensor.device() != *device) {
        return Fault{fmt::format("{} is on {} and {} \"{}\" on {}", first, device->str(), kind, item.key(), tensor.device().str()),
                     "a model of auto_model is on one device: move it with module->to(device)"};
      }
      if (tensor.device().is_meta())
        return Fault{fmt::format("{} \"{}\" is on the device meta, without memory", kind, item.key()), "give it values first"};
    }
    return std::nullopt;
  };
  if (auto fault = look("parameter", module->named_parameters())) return fault;
  return look("buffer", module->named_buffers());
}

void agree_on_faults(const std::optional<Fault>& own, const ProcessGroup& group) {
  if (group.size() == 1 && !own) return;
  const auto all = all_gather_object(own ? own->what : std::string(), group);
  const auto refuse = [&](const std::string& what, const std::string& hint, int culprit) {
    throw InvalidArgument(what, {.operation = "auto_model", .group = group.name(), .rank = group.rank(), .culprit = culprit, .hint = hint});
  };
  if (own) refuse(own->what, own->hint, group.rank());
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (!all[r].empty()) refuse(fmt::format("rank {} has another model: {}", r, all[r]), "make the same model on all ranks", static_cast<int>(r));
  }
}

/// The name of a tensor with its description.
using Line = std::pair<std::string, std::string>;

std::vector<Line> lines_of(const torch::nn::Module& module, const AutoModelOptions& options) {
  std::vector<Line> lines;
  lines.emplace_back("option find_unused_parameters", options.find_unused_parameters ? "true" : "false");
  lines.emplace_back("option bucket_cap_mb", fmt::format("{}", options.bucket_cap_mb));
  lines.emplace_back("option sync_bn", options.sync_bn ? "true" : "false");
  lines.emplace_back("option compression", options.compression.name());
  lines.emplace_back("option broadcast_buffers", options.broadcast_buffers ? "true" : "false");
  // Ranks may have devices of different numbers.
  const auto text = [](const at::Tensor& tensor) { return describe(tensor.scalar_type(), tensor.sizes(), at::Device(tensor.device().type())); };
  for (const auto& item : module.named_parameters()) {
    lines.emplace_back(fmt::format("parameter \"{}\"", item.key()), text(item.value()) + (item.value().requires_grad() ? "" : ", frozen"));
  }
  for (const auto& item : module.named_buffers()) lines.emplace_back(fmt::format("buffer \"{}\"", item.key()), text(item.value()));
  return lines;
}

/// Returns the first difference as text, empty where there is none.
std::string first_difference(const std::vector<Line>& root, const std::vector<Line>& own, int rank) {
  for (std::size_t i = 0; i < std::max(root.size(), own.size()); ++i) {
    if (i >= own.size()) return fmt::format("rank 0 has a {}, and rank {} has not", root[i].first, rank);
    if (i >= root.size()) return fmt::format("rank {} has a {}, and rank 0 has not", rank, own[i].first);
    if (own[i].first != root[i].first) return fmt::format("rank 0 has {}, and rank {} has {}", root[i].first, rank, own[i].first);
    if (own[i].second != root[i].second)
      return fmt::format("{} is {} on rank 0 and {} on rank {}", own[i].first, root[i].second, own[i].second, rank);
  }
  return {};
}

void compare(const std::vector<Line>& own, const ProcessGroup& group) {
  std::vector<Line> root = own;
  broadcast_object(root, 0, group);
  const auto differences = all_gather_object(first_difference(root, own, group.rank()), group);
  for (std::size_t r = 0; r < differences.size(); ++r) {
    if (differences[r].empty()) continue;
    throw Mismatch(differences[r], {.operation = "auto_model",
                                    .group = group.name(),
                                    .rank = group.rank(),
                                    .culprit = static_cast<int>(r),
                                    .hint = "all ranks make the same model and pass the same options"});
  }
}

/// Checks the model and the options on all ranks, moves the model to device(), and compares it with that of rank 0. Throws InvalidArgument or
/// Mismatch on all ranks alike.
void prepare_model(torch::nn::Module* module, const AutoModelOptions& options, const ProcessGroup& group) {
  agree_on_faults(fault_of(module, options), group);
  const at::Device home = torch_device(device());
  for (const at::Tensor& parameter : module->parameters()) {
    if (parameter.device() != home) {
      if (!parameter.device().is_cpu())
        TORCH_WARN("unisono: auto_model moves the model from ", parameter.device(), " to ", home, ", which is this process's device()");
      module->to(home);
      break;
    }
  }
  if (group.size() > 1) compare(lines_of(*module, options), group);
}

}  // namespace

std::string describe(at::ScalarType dtype, at::IntArrayRef sizes, const at::Device& device) {
  return fmt::format("{} [{}] on {}", c10::toString(dtype), fmt::join(sizes, ", "), device.str());
}

void broadcast_tensors(const std::vector<at::Tensor>& tensors, const ProcessGroup& group) {
  const at::NoGradGuard no_grad;
  const bool is_root = group.rank() == 0;
  std::vector<at::Tensor> package;
  std::size_t bytes = 0;
  const auto send = [&] {
    if (package.empty()) return;
    std::int64_t elements = 0;
    for (const at::Tensor& tensor : package) elements += tensor.numel();
    const auto options = package.front().options().requires_grad(false).memory_format(std::nullopt);
    const at::Tensor flat = options.device().is_cpu() ? empty_shared({elements}, options) : at::empty({elements}, options);
    std::int64_t offset = 0;
    const auto each = [&](auto&& f) {
      offset = 0;
      for (const at::Tensor& tensor : package) {
        f(tensor, flat.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
        offset += tensor.numel();
      }
    };
    if (is_root) each([](const at::Tensor& tensor, const at::Tensor& place) { place.copy_(tensor); });
    broadcast(flat, 0, group);
    if (!is_root) each([](const at::Tensor& tensor, const at::Tensor& place) { tensor.copy_(place); });
    package.clear();
    bytes = 0;
  };
  std::map<at::ScalarType, std::vector<at::Tensor>> by_dtype;
  for (const at::Tensor& tensor : tensors) by_dtype[tensor.scalar_type()].push_back(tensor);
  for (const auto& [dtype, alike] : by_dtype) {
    for (const at::Tensor& tensor : alike) {
      if (bytes + tensor.nbytes() > largest_package) send();
      package.push_back(tensor);
      bytes += tensor.nbytes();
    }
    send();
  }
}

Replica::Replica(std::shared_ptr<torch::nn::Module> module, const AutoModelOptions& options)
    : module_(std::move(module)), group_(options.group ? *options.group : world()), sync_bn_(options.sync_bn) {
  prepare_model(module_.get(), options, group_);
  if (group_.size() == 1) return;
  std::vector<at::Tensor> state = module_->parameters();
  const at::Device device = state.empty() ? at::Device(at::kCPU) : state.front().device();
  if (group_.rank() == 0) {
    LOG(INFO) << fmt::format("unisono: a model of {} parameters is trained by {} ranks together, on {}", state.size(), group_.size(), device.str());
  }
  for (at::Tensor& buffer : module_->buffers()) state.push_back(std::move(buffer));
  for (at::Tensor& tensor : state) tensor = tensor.detach();
  broadcast_tensors(state, group_);
  const BucketCaps caps = bucket_caps(options.bucket_cap_mb, device, std::min(group_.size(), nproc_per_node()));
  // The buckets have a group of their own, so that other calls of the user or of another model cannot come between them.
  reducer_ = std::make_shared<Reducer>(module_, *split_group(group_, 0, group_.rank()), options, caps);
  reducer_->attach();
}

Replica::~Replica() = default;

void Replica::before_forward() {
  if (reducer_) reducer_->before_forward();
}
void Replica::after_forward(const std::vector<at::Tensor>& outputs) {
  if (reducer_) reducer_->after_forward(outputs);
}
const ProcessGroup* Replica::batch_norm_group() const { return reducer_ && sync_bn_ && module_->is_training() ? &group_ : nullptr; }
bool Replica::wants_outputs() const { return reducer_ && reducer_->wants_outputs(); }
void Replica::hold_reduction(int change) {
  if (reducer_) reducer_->hold(change);
}
BackwardTimes Replica::times() const { return reducer_ ? reducer_->times() : BackwardTimes(); }
const ProcessGroup& Replica::group() const { return group_; }

}  // namespace unisono::libtorch

namespace unisono {

NoSync::NoSync(std::shared_ptr<libtorch::Replica> replica) : replica_(std::move(replica)) { replica_->hold_reduction(1); }
NoSync::~NoSync() {
  if (replica_) replica_->hold_reduction(-1);
}
NoSync::NoSync(NoSync&& other) noexcept = default;

}  // namespace unisono
