#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>
#include <torch/optim/lbfgs.h>
#include <torch/serialize.h>

#include "torch/gradients.h"
#include "torch/optimizer_state.h"
#include "torch/zero_partition.h"
#include "unisono/collectives.h"
#include "unisono/context.h"
#include "unisono/error.h"
#include "unisono/point_to_point.h"
#include "unisono/torch/optimizer.h"
#include "unisono/torch/tensor.h"

namespace unisono {

using torch::optim::Optimizer;
using torch::optim::OptimizerParamGroup;
using State = ska::flat_hash_map<void*, std::unique_ptr<torch::optim::OptimizerParamState>>;

/// The wrapped optimizer and the parameters that it sees: those of this rank, for a while those of another, or all.
class DistributedOptimizer::Share {
 public:
  static constexpr int everybody = -1;

  Share(std::unique_ptr<Optimizer> given, const AutoOptimOptions& options)
      : local(std::move(given)), how(options), group(options.group ? *options.group : world()) {
    if (is_sharded() && dynamic_cast<torch::optim::LBFGS*>(local.get()) != nullptr) {
      throw InvalidArgument("LBFGS cannot be shared out among ranks: its step is one over all parameters",
                            {.operation = "auto_optim", .hint = "leave shard_state off, or take another optimizer"});
    }
    libtorch::check_alike(*local, group, "auto_optim");
  }

  bool is_sharded() const { return how.shard_state && group.size() > 1; }

  /// Assigns parameters that are new since the last call; at first all are.
  void follow(std::vector<OptimizerParamGroup>& groups) {
    std::vector<at::Tensor> all;
    for (const OptimizerParamGroup& each : groups) all.insert(all.end(), each.params().begin(), each.params().end());
    const bool as_ever = all.size() == parameters.size() && local->param_groups().size() == groups.size() &&
                         std::ranges::equal(all, parameters, [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); });
    if (as_ever) {
      for (std::size_t g = 0; g < groups.size(); ++g) local->param_groups()[g].set_options(groups[g].options().clone());
      return;
    }
    // A parameter's state stays on its rank, wherever the parameter stands now.
    std::vector<at::Tensor> ordered;
    std::vector<int> of_ordered;
    for (const at::Tensor& x : all) {
      const auto known = owner_of.find(x.unsafeGetTensorImpl());
      if (known == owner_of.end()) continue;
      ordered.push_back(x);
      of_ordered.push_back(known->second);
    }
    for (const at::Tensor& x : all) {
      if (!owner_of.contains(x.unsafeGetTensorImpl())) ordered.push_back(x);
    }
    if (is_sharded()) libtorch::share_out(ordered, group.size(), of_ordered);
    else of_ordered.assign(ordered.size(), everybody);
    owner_of.clear();
    for (std::size_t i = 0; i < ordered.size(); ++i) owner_of[ordered[i].unsafeGetTensorImpl()] = of_ordered[i];
    parameters = std::move(all);
    owners.clear();
    for (const at::Tensor& x : parameters) owners.push_back(owner_of.at(x.unsafeGetTensorImpl()));
    if (is_sharded()) buckets = libtorch::buckets_of(parameters, owners, group.size(), static_cast<std::size_t>(how.bucket_cap_mb) << 20);
    show(groups, group.rank());
    prune();
  }

  /// Shows `local` the parameters of one rank, or of all.
  void show(const std::vector<OptimizerParamGroup>& groups, int of_rank) {
    std::vector<OptimizerParamGroup> seen;
    std::size_t i = 0;
    for (const OptimizerParamGroup& each : groups) {
      std::vector<at::Tensor> mine;
      for (const at::Tensor& parameter : each.params()) {
        if (of_rank == everybody || owners[i] == everybody || owners[i] == of_rank) mine.push_back(parameter);
        ++i;
      }
      seen.emplace_back(std::move(mine), each.options().clone());
    }
    local->param_groups() = std::move(seen);
  }

  /// Keeps the state of this rank's parameters and returns that of the others.
  State prune() {
    State pruned;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (owners[i] == everybody || owners[i] == group.rank()) continue;
      const auto at = local->state().find(parameters[i].unsafeGetTensorImpl());
      if (at == local->state().end()) continue;
      pruned[at->first] = std::move(at->second);
      local->state().erase(at);
    }
    return pruned;
  }

  /// Loads the state of one rank's parameters, or of all, and keeps that of this rank's.
  void load(torch::serialize::InputArchive& archive, std::vector<OptimizerParamGroup>& groups, int of_rank) {
    follow(groups);
    State before = std::move(local->state());
    local->state().clear();
    show(groups, of_rank);
    try {
      local->load(archive);
    } catch (...) {
      local->state() = std::move(before);
      show(groups, group.rank());
      throw;
    }
    for (std::size_t g = 0; g < groups.size(); ++g) groups[g].set_options(local->param_groups()[g].options().clone());
    show(groups, group.rank());
    prune();
    others.reset();
  }

  std::unique_ptr<Optimizer> local;
  AutoOptimOptions how;
  ProcessGroup group;
  std::vector<at::Tensor> parameters = {};
  std::vector<int> owners = {};                        // by parameter
  std::unordered_map<const void*, int> owner_of = {};  // the same, by the key of the state
  std::vector<libtorch::ZeroBucket> buckets = {};
  std::optional<State> others = {};  // on the rank given to consolidate_state, until the next step
};

DistributedOptimizer::DistributedOptimizer(std::unique_ptr<Optimizer> optimizer, const AutoOptimOptions& options)
    : Optimizer(std::vector<OptimizerParamGroup>{}, optimizer->defaults().clone()), share_(std::make_unique<Share>(std::move(optimizer), options)) {
  // add_param_group is not used, because it would put defaults where an option was set to its old default explicitly.
  param_groups_ = std::vector<OptimizerParamGroup>(share_->local->param_groups());
  share_->follow(param_groups_);
}

DistributedOptimizer::~DistributedOptimizer() = default;

torch::Tensor DistributedOptimizer::step(LossClosure closure) {
  torch::Tensor loss;
  if (closure) {
    const at::AutoGradMode enabled(true);
    loss = closure();
  }
  share_->others.reset();
  share_->follow(param_groups_);
  if (share_->how.average_gradients && share_->group.size() > 1) {
    libtorch::average_gradients(share_->parameters, {.operation = "step", .bucket_cap_mb = share_->how.bucket_cap_mb}, share_->group);
  }
  share_->local->step();
  if (is_sharded()) libtorch::exchange(share_->buckets, share_->group);
  return loss;
}

bool DistributedOptimizer::is_sharded() const { return share_->is_sharded(); }
int DistributedOptimizer::owner(std::size_t parameter) const {
  share_->follow(const_cast<DistributedOptimizer*>(this)->param_groups_);  // NOLINT: as in save
  if (parameter >= share_->owners.size()) throw InvalidArgument(fmt::format("there is no parameter {}", parameter), {.operation = "owner"});
  return share_->owners[parameter];
}
Optimizer& DistributedOptimizer::local() { return *share_->local; }
const Optimizer& DistributedOptimizer::local() const { return *share_->local; }
const ProcessGroup& DistributedOptimizer::group() const { return share_->group; }

void DistributedOptimizer::consolidate_state(Rank to) {
  Share& share = *share_;
  const ProcessGroup& group = share.group;
  const int target = detail::rank_within(to, group, "consolidate_state");
  if (!is_sharded()) return;
  share.follow(param_groups_);
  at::Tensor own;
  libtorch::on_all(group, "consolidate_state", [&] {
    if (group.rank() == target) return;
    own = libtorch::bytes_of(*share.local);
    if (own.numel() > 0 || share.local->state().empty()) return;
    throw InvalidArgument(fmt::format("{} has state but does not write it", libtorch::type_of(*share.local)),
                          {.operation = "consolidate_state", .hint = "override its save and load"});
  });
  const std::vector<std::int64_t> sizes = all_gather(own.defined() ? own.numel() : std::int64_t{0}, group);
  if (group.rank() != target && own.numel() > 0) send(own, target, group);
  libtorch::on_all(group, "consolidate_state", [&] {
    if (group.rank() != target) return;
    State mine = std::move(share.local->state());
    share.local->state().clear();
    State others;
    std::exception_ptr error;
    for (int r = 0; r < group.size(); ++r) {
      if (sizes[static_cast<std::size_t>(r)] == 0) continue;
      try {
        const at::Tensor bytes = at::empty({sizes[static_cast<std::size_t>(r)]}, at::kByte);
        recv(bytes, r, group);
        share.show(param_groups_, r);
        libtorch::load_bytes(*share.local, bytes);
        for (auto& [parameter, state] : share.local->state()) others[parameter] = std::move(state);
      } catch (...) {
        if (!error) error = std::current_exception();
      }
    }
    share.local->state() = std::move(mine);
    share.show(param_groups_, group.rank());
    if (error) std::rethrow_exception(error);
    share.others = std::move(others);
  });
}

void DistributedOptimizer::save(torch::serialize::OutputArchive& archive) const {
  Share& share = *share_;
  auto& groups = const_cast<DistributedOptimizer*>(this)->param_groups_;  // NOLINT: OptimizerParamGroup::options has a const form, too
  if (!is_sharded()) {
    share.follow(groups);
    return share.local->save(archive);
  }
  if (!share.others) {
    throw InvalidArgument("the optimizer's state is shared out among the ranks, and this one has only a part of it",
                          {.operation = "save", .hint = "call consolidate_state on all ranks first, or save with save_checkpoint"});
  }
  for (auto& [parameter, state] : *share.others) share.local->state()[parameter] = state->clone();
  share.show(groups, Share::everybody);
  const auto restore = [&] {
    share.show(groups, share.group.rank());
    share.prune();
  };
  try {
    share.local->save(archive);
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

void DistributedOptimizer::load(torch::serialize::InputArchive& archive) { share_->load(archive, param_groups_, Share::everybody); }
void DistributedOptimizer::load_local(torch::serialize::InputArchive& archive) { share_->load(archive, param_groups_, share_->group.rank()); }

}  // namespace unisono
