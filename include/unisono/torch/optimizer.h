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

// An optimizer that steps alike on all ranks, and one whose state is shared out among them.

namespace unisono {

/// The same on all ranks.
struct AutoOptimOptions {
  bool shard_state = false;                ///< every rank keeps the state of its share of the parameters only (see DistributedOptimizer)
  bool average_gradients = false;          ///< before each step, over the ranks: for models that auto_model has not wrapped
  int bucket_cap_mb = 25;                  ///< MiB of parameters that travel together
  std::optional<ProcessGroup> group = {};  ///< unset: the world
};

/// What auto_optim makes of an optimizer where an option asks for more than to hand it back.
///
/// With `shard_state` the parameters are shared out, each whole, the largest first to the rank with the least. A rank steps on its own share, keeps
/// the state of that alone, and all ranks then exchange what they have updated: stage 1 of ZeRO (Rajbhandari, Rasley, Ruwase, He: "ZeRO: Memory
/// Optimizations Toward Training Trillion Parameter Models", 2020). The parameters are bit for bit those of the optimizer unsharded, where all ranks
/// have the same gradients (auto_model, or `average_gradients`). param_groups() hold all parameters: schedulers, zero_grad and
/// add_param_group work as ever. state() is empty: the state is in local().
///
/// step, consolidate_state and the constructor are collective.
class UNISONO_API DistributedOptimizer final : public torch::optim::Optimizer {
 public:
  /// Mismatch, naming the parameter, where the ranks have not the same ones. InvalidArgument for LBFGS with `shard_state`.
  DistributedOptimizer(std::unique_ptr<torch::optim::Optimizer> optimizer, const AutoOptimOptions& options);
  ~DistributedOptimizer() override;

  /// The closure is called once, before anything else, with gradients enabled; returns what it returned. A parameter that has a gradient on some
  /// ranks counts, when they are averaged, as one of zeros on the others.
  torch::Tensor step(LossClosure closure = nullptr) override;

  bool is_sharded() const;
  /// The rank that keeps the state of this parameter (in the order of param_groups()); -1: all do.
  int owner(std::size_t parameter) const;
  /// The optimizer that was given, with the parameters and the state of this rank's share.
  torch::optim::Optimizer& local();
  const torch::optim::Optimizer& local() const;
  const ProcessGroup& group() const;

  /// Collective: brings the whole state to one rank, where save() then writes all of it, until the next step.
  void consolidate_state(Rank to = 0);
  /// As the optimizer unsharded writes it, which can also load it. InvalidArgument where the state is sharded and has not been brought here.
  void save(torch::serialize::OutputArchive& archive) const override;
  /// The whole state, from which this rank takes its share. Not collective.
  void load(torch::serialize::InputArchive& archive) override;
  /// What local() has saved on this rank, of as many.
  void load_local(torch::serialize::InputArchive& archive);

 private:
  class Share;
  std::unique_ptr<Share> share_;
};

/// Collective. The optimizer itself, made alike on all ranks: state and options of rank 0. With an option, a DistributedOptimizer. In a group of one
/// it is always the same object. Mismatch, naming the parameter, where the ranks optimise different ones.
[[nodiscard]] UNISONO_API std::unique_ptr<torch::optim::Optimizer> auto_optim(std::unique_ptr<torch::optim::Optimizer> optimizer,
                                                                              const AutoOptimOptions& options = {});
/// auto_optim(torch::optim::SGD(model->parameters(), 0.1))
template <std::derived_from<torch::optim::Optimizer> O>
requires(!std::is_const_v<O>) [[nodiscard]] std::unique_ptr<torch::optim::Optimizer> auto_optim(O&& optimizer, const AutoOptimOptions& options = {}) {
  return auto_optim(std::unique_ptr<torch::optim::Optimizer>(std::make_unique<O>(std::move(optimizer))), options);
}

/// Collective: DistributedOptimizer::consolidate_state where the optimizer is one, else nothing.
UNISONO_API void consolidate_state(torch::optim::Optimizer& optimizer, Rank to = 0);

}  // namespace unisono
