#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <torch/optim/optimizer.h>

#include "unisono/export.h"
#include "unisono/process_group.h"

// An optimizer that steps alike on all ranks, and an optimizer whose state is shared out among
// them.

namespace unisono {

/// The options of auto_optim, the same on all ranks.
struct AutoOptimOptions {
  /// Whether every rank keeps the state of its share of the parameters only (DistributedOptimizer).
  bool shard_state = false;
  /// Whether gradients are averaged over the ranks before each step: for models that auto_model has
  /// not wrapped.
  bool average_gradients = false;
  /// MiB of parameters that travel together.
  int bucket_cap_mb = 25;
  /// The group whose ranks step together; the world unless it is set.
  std::optional<ProcessGroup> group = {};
};

/// The optimizer that auto_optim makes if an option is set.
///
/// With `shard_state` the parameters are shared out, each whole, the largest first to the rank with
/// the least. A rank steps on its own share and keeps the state of that alone; then all ranks
/// exchange what they have updated. This is stage 1 of ZeRO (Rajbhandari, Rasley, Ruwase, He:
/// "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020).
///
/// The parameters are bit for bit those of the optimizer unsharded, if all ranks have the same
/// gradients (auto_model, or `average_gradients`). param_groups() hold all parameters: schedulers,
/// zero_grad and add_param_group work as ever. state() is empty: the state is in local().
///
/// step, consolidate_state and the constructor are collective.
class UNISONO_API DistributedOptimizer final : public torch::optim::Optimizer {
 public:
  /// Wraps an optimizer.
  ///
  /// @throws Mismatch, naming the parameter, if the ranks do not have the same ones
  /// @throws InvalidArgument for LBFGS with `shard_state`
  DistributedOptimizer(std::unique_ptr<torch::optim::Optimizer> optimizer, const AutoOptimOptions& options);
  ~DistributedOptimizer() override;

  /// Steps on this rank's share and exchanges the result. The closure is called once, before
  /// anything else, with gradients enabled, and its result is returned.
  ///
  /// A parameter that has a gradient on some ranks counts as one of zeros on the others when
  /// gradients are averaged.
  torch::Tensor step(LossClosure closure = nullptr) override;

  /// Tells whether the state is shared out.
  bool is_sharded() const;
  /// Returns the rank that keeps the state of this parameter, in the order of param_groups(); -1 if
  /// all do.
  int owner(std::size_t parameter) const;
  /// Returns the optimizer that was given, with the parameters and the state of this rank's share.
  torch::optim::Optimizer& local();
  const torch::optim::Optimizer& local() const;
  /// Returns the group whose ranks step together.
  const ProcessGroup& group() const;

  /// Brings the whole state to a rank, where save() then writes all of it, until the next step.
  /// Collective.
  void consolidate_state(Rank to = 0);
  /// Writes what the optimizer unsharded would write, which can also load it. InvalidArgument if
  /// the state is sharded and has not been brought here.
  void save(torch::serialize::OutputArchive& archive) const override;
  /// Reads a whole state, from which this rank takes its share. Not collective.
  void load(torch::serialize::InputArchive& archive) override;
  /// Reads what local() has saved on this rank, with as many ranks.
  void load_local(torch::serialize::InputArchive& archive);

 private:
  class Share;
  std::unique_ptr<Share> share_;
};

/// Makes an optimizer step alike on all ranks: it takes state and options of rank 0. Collective.
///
/// It returns the optimizer itself, or a DistributedOptimizer if an option is set. In a group of
/// one it always returns the optimizer itself.
///
/// ```cpp
/// auto optimizer = auto_optim(std::make_unique<torch::optim::Adam>(model->parameters()), {.shard_state = true});
/// ```
///
/// @throws Mismatch, naming the parameter, if the ranks optimise different ones
[[nodiscard]] UNISONO_API std::unique_ptr<torch::optim::Optimizer> auto_optim(std::unique_ptr<torch::optim::Optimizer> optimizer,
                                                                              const AutoOptimOptions& options = {});

/// Takes an optimizer by value: `auto_optim(torch::optim::SGD(model->parameters(), 0.1))`.
template <std::derived_from<torch::optim::Optimizer> O>
requires(!std::is_const_v<O>) [[nodiscard]] std::unique_ptr<torch::optim::Optimizer> auto_optim(O&& optimizer, const AutoOptimOptions& options = {}) {
  return auto_optim(std::unique_ptr<torch::optim::Optimizer>(std::make_unique<O>(std::forward<O>(optimizer))), options);
}

/// Calls DistributedOptimizer::consolidate_state if the optimizer is one, and does nothing
/// otherwise. Collective.
UNISONO_API void consolidate_state(torch::optim::Optimizer& optimizer, Rank to = 0);

}  // namespace unisono
