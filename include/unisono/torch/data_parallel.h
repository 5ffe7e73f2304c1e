#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "unisono/export.h"
#include "unisono/process_group.h"
#include "unisono/torch/compression.h"
#include "unisono/torch/detail/replica.h"
#include "unisono/torch/sync_batch_norm.h"

// Data-parallel training: each rank has the whole model and a share of the batch, and the gradients
// are averaged over the ranks while the backward pass goes on.
//
// ```cpp
// auto model = auto_model(Net());                    // collective
// auto optimizer = auto_optim(torch::optim::SGD(model->parameters(), 0.1));
// loss(model(input), target).backward();             // averages the gradients
// optimizer->step();
// ```
//
// Bucketing follows Li et al.: PyTorch Distributed: Experiences on Accelerating Data Parallel
// Training, VLDB 2020.

namespace unisono {

/// The options of auto_model. They are the same on all ranks, which compare them.
struct AutoModelOptions {
  /// Whether a backward pass may leave parameters without a gradient, on some ranks or on all.
  /// Parameters that no rank has used keep their gradient as it is; the gradient of a parameter
  /// that only some have used is averaged, with zeros for the others. It costs a small exchange for
  /// each backward pass.
  bool find_unused_parameters = false;
  /// MiB of gradients that travel together; the first bucket is 1 MiB at most. A larger gradient is
  /// a bucket by itself.
  ///
  /// The default, 25, suits devices. On the cpu it stands for the size that stays in cache: an
  /// equal share of a quarter of the last-level cache, between 1 and 25 MiB.
  double bucket_cap_mb = 25;
  /// Whether batch normalisation takes its statistics from the samples of all ranks, on the cpu as
  /// well. The modules keep their types.
  bool sync_bn = false;
  /// The form in which gradients travel.
  Compression compression = {};
  /// Whether the buffers of rank 0 (running statistics, say) become those of all ranks before each
  /// forward pass in training.
  bool broadcast_buffers = true;
  /// The group whose ranks train the model; the world unless it is set.
  std::optional<ProcessGroup> group = {};
};

/// The times of a bucket in a backward pass.
struct BucketTimes {
  /// The names of its parameters, in the order in which they lie in the bucket.
  std::vector<std::string> parameters;
  /// Its bytes before compression.
  std::size_t bytes = 0;
  /// The begin and the end of its reduction.
  std::chrono::steady_clock::time_point started, completed;
};

/// The times of the last backward pass that was reduced: a timeline can be drawn from them.
struct BackwardTimes {
  /// The arrival of the first and of the last gradient.
  std::chrono::steady_clock::time_point first_gradient, last_gradient;
  /// The end of the wait for the reductions.
  std::chrono::steady_clock::time_point end;
  /// The buckets, in the order of their reduction.
  std::vector<BucketTimes> buckets;
};

/// A scope in which backward passes add to the gradients of this rank and are not reduced. The
/// first backward pass after it reduces everything that has come together. All ranks make such a
/// scope alike.
///
/// ```cpp
/// {
///   const auto no_sync = model.no_sync();
///   loss(model(first), target).backward();           // accumulates
/// }
/// loss(model(second), target).backward();            // averages both
/// ```
class UNISONO_API NoSync {
 public:
  explicit NoSync(std::shared_ptr<libtorch::Replica> replica);
  ~NoSync();
  NoSync(NoSync&& other) noexcept;
  NoSync& operator=(NoSync&&) = delete;
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  std::shared_ptr<libtorch::Replica> replica_;
};

/// A model that the ranks of a group train together; made by auto_model. It is a handle, as module
/// holders are: copies share the model.
///
/// A backward pass through it averages the gradients of its parameters over the ranks and returns
/// when that is done. The gradients lie in the buckets then, in memory that the ranks share
/// (shared_resource()), and stay valid as any others.
///
/// A backward pass throws on all ranks: InvalidArgument, naming the parameters that got no
/// gradient, if find_unused_parameters is not set, and everything that the collectives throw. The
/// gradients are unspecified then.
///
/// - Every backward pass reduces, also a second one through a retained graph or another part of the
///   outputs: what it adds to the gradients is averaged.
/// - A backward pass whose forward pass has gone around this object, by model->forward(x) or
///   through the module that was wrapped, is InvalidArgument: it has missed what a forward pass
///   does here.
/// - Several forward passes may precede one backward pass; buffers are broadcast before the first
///   of them only.
/// - Gradients of gradients with respect to parameters are not averaged. Sparse gradients are
///   Unsupported.
/// - The module stays as it was: after a parameter was replaced, added, frozen, or changed its
///   dtype, shape or device, a forward pass throws InvalidArgument, naming it.
template <libtorch::ModuleHandle Holder>
class DataParallel {
 public:
  using ContainedType = typename libtorch::contained<Holder>::type;

  /// Wraps a module; auto_model calls it. Collective.
  DataParallel(Holder holder, const AutoModelOptions& options)
      : holder_(std::move(holder)), replica_(std::make_shared<libtorch::Replica>(libtorch::contained<Holder>::pointer(holder_), options)) {}

  /// Calls the module's forward.
  template <class... Args>
  auto forward(Args&&... args) {
    return call([&](ContainedType& module) { return module.forward(std::forward<Args>(args)...); });
  }
  /// Calls the module's forward.
  template <class... Args>
  auto operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }
  /// Calls f(module) as a forward pass, for modules that have several.
  template <class F>
  requires std::invocable<F&, ContainedType&>
  auto call(F&& f) {
    replica_->before_forward();
    const libtorch::SyncBatchNormScope batch_norm(replica_->batch_norm_group());
    if constexpr (std::is_void_v<std::invoke_result_t<F&, ContainedType&>>) {
      f(*holder_);
      replica_->after_forward({});
    } else {
      auto result = f(*holder_);
      std::vector<at::Tensor> outputs;
      if (replica_->wants_outputs()) libtorch::collect_tensors(result, outputs);
      replica_->after_forward(outputs);
      return result;
    }
  }

  /// Gives access to the module itself.
  ContainedType* operator->() { return &*holder_; }
  const ContainedType* operator->() const { return &*holder_; }
  ContainedType& operator*() { return *holder_; }
  const ContainedType& operator*() const { return *holder_; }
  /// Returns the holder that was wrapped.
  const Holder& module() const noexcept { return holder_; }
  /// Returns the module's parameters.
  std::vector<at::Tensor> parameters(bool recurse = true) const { return (*this)->parameters(recurse); }

  /// Begins a scope in which backward passes are not reduced.
  [[nodiscard]] NoSync no_sync() { return NoSync(replica_); }
  /// Returns the times of the last backward pass that was reduced. In a group of one there are no
  /// buckets.
  BackwardTimes backward_times() const { return replica_->times(); }
  /// Returns the group whose ranks train the model.
  const ProcessGroup& group() const { return replica_->group(); }

 private:
  Holder holder_;
  std::shared_ptr<libtorch::Replica> replica_;
};

/// Makes a model one that all ranks of a group train together. Collective.
///
/// It moves the model to device() if it is elsewhere, compares the names, dtypes, shapes, devices
/// and requires_grad of the parameters and buffers between the ranks, and gives all ranks the
/// values of rank 0. In a group of one the model stays as it is.
///
/// @throws Mismatch, with the first difference, for models or options that differ between ranks
/// @throws InvalidArgument for an empty holder, a model without memory (meta), and one on two
///   devices
template <class Holder>
requires libtorch::ModuleHandle<std::remove_cvref_t<Holder>> DataParallel<std::remove_cvref_t<Holder>> auto_model(
    Holder&& model, const AutoModelOptions& options = {}) {
  return DataParallel<std::remove_cvref_t<Holder>>(std::forward<Holder>(model), options);
}

}  // namespace unisono
