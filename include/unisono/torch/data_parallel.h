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
#include "unisono/torch/sync_batch_norm.h"

// Data-parallel training: each rank has the whole model and a share of the batch, and the gradients are averaged over the ranks while the backward
// pass goes on. Bucketing follows Li et al.: PyTorch Distributed: Experiences on Accelerating Data Parallel Training, VLDB 2020.

namespace unisono {

/// The same on all ranks, which compare them.
struct AutoModelOptions {
  /// Needed where a backward pass may leave parameters of the model without a gradient, on some ranks or on all. Parameters that no rank has used
  /// keep their gradient as it is; what only some have used is averaged, the others giving zero. Costs a small exchange for each backward pass.
  bool find_unused_parameters = false;
  /// MiB of gradients that travel together; the first bucket is 1 MiB at most. 25, the default, is what devices like; on the cpu it stands for what
  /// stays in cache: an equal share of a quarter of the last-level cache, between 1 and 25 MiB. A larger gradient is a bucket of its own.
  double bucket_cap_mb = 25;
  /// Batch normalisation takes its statistics from the samples of all ranks, on the cpu as well. The modules stay what they are.
  bool sync_bn = false;
  Compression compression = {};
  /// The buffers of rank 0 (running statistics, say) become those of all ranks before each forward pass in training.
  bool broadcast_buffers = true;
  std::optional<ProcessGroup> group = {};  ///< whose ranks train the model; else the world
};

/// What became of a bucket in a backward pass.
struct BucketTimes {
  std::vector<std::string> parameters;                       ///< in the order in which they lie in the bucket
  std::size_t bytes = 0;                                     ///< before compression
  std::chrono::steady_clock::time_point started, completed;  ///< its reduction
};
/// The last backward pass that was reduced: what a timeline is drawn from.
struct BackwardTimes {
  std::chrono::steady_clock::time_point first_gradient, last_gradient;  ///< had arrived
  std::chrono::steady_clock::time_point end;                            ///< of the wait for the reductions
  std::vector<BucketTimes> buckets;                                     ///< in the order of their reduction
};

namespace libtorch {

class Reducer;

template <class Holder>
struct contained {};
template <class Holder>
requires requires { typename Holder::ContainedType; }
struct contained<Holder> {
  using type = typename Holder::ContainedType;
  static std::shared_ptr<torch::nn::Module> pointer(const Holder& holder) { return holder.is_empty() ? nullptr : holder.ptr(); }
};
template <class M>
struct contained<std::shared_ptr<M>> {
  using type = M;
  static std::shared_ptr<torch::nn::Module> pointer(const std::shared_ptr<M>& holder) { return holder; }
};
template <class Holder>
concept ModuleHandle = requires {
  typename contained<Holder>::type;
}
&&std::derived_from<typename contained<Holder>::type, torch::nn::Module>;

template <class T>
concept tuple_like = requires {
  std::tuple_size<T>::value;
};
/// The tensors in what a forward pass returns: in tensors, optionals, pairs, tuples, arrays, vectors and maps of them. Of other types it sees none.
template <class T>
void collect_tensors(const T& value, std::vector<at::Tensor>& tensors) {
  if constexpr (std::derived_from<T, at::Tensor>) {
    tensors.push_back(value);
  } else if constexpr (requires {
                         value.has_value();
                         *value;
                       }) {
    if (value.has_value()) collect_tensors(*value, tensors);
  } else if constexpr (std::ranges::input_range<const T>) {
    using Part = std::remove_cvref_t<std::ranges::range_reference_t<const T>>;
    if constexpr (std::is_class_v<Part> && !std::same_as<Part, T>) {
      for (const auto& part : value) collect_tensors(part, tensors);
    }
  } else if constexpr (tuple_like<T>) {
    std::apply([&](const auto&... parts) { (collect_tensors(parts, tensors), ...); }, value);
  }
}

/// What all DataParallel share: the module's parameters and buffers are those of rank 0 from here on, and its gradients are reduced.
class UNISONO_API Replica {
 public:
  Replica(std::shared_ptr<torch::nn::Module> module, const AutoModelOptions& options);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  void before_forward();
  void after_forward(const std::vector<at::Tensor>& outputs);
  const ProcessGroup* batch_norm_group() const;  ///< null where it is not synchronised
  bool wants_outputs() const;
  void hold_reduction(int change);
  BackwardTimes times() const;
  const ProcessGroup& group() const;

 private:
  std::shared_ptr<torch::nn::Module> module_;
  ProcessGroup group_;
  bool sync_bn_;
  std::shared_ptr<Reducer> reducer_;  // none in a group of one
};

}  // namespace libtorch

/// While it lives, backward passes that begin add to the gradients of this rank and are not reduced. The first one after it reduces all that has come
/// together. All ranks do the same.
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

/// A model that the ranks of a group train together; made by auto_model. A handle, as module holders are: copies share the model.
///
/// A backward pass through it averages the gradients of its parameters over the ranks and returns when that is done; gradients lie in the buckets
/// then, in memory that the ranks share (shared_resource()), and stay valid as any others. It throws, on all ranks, InvalidArgument that names the
/// parameters which got no gradient (where find_unused_parameters is not set), and what the collectives throw: PeerFailed, Timeout, Mismatch. What
/// the gradients hold then is unspecified.
///
/// Every backward pass reduces: a second one through a retained graph, or through another part of the outputs, too; what it adds to the gradients is
/// averaged. A backward pass whose forward pass has gone around this object, by model->forward(x) or through the module that was wrapped, is
/// InvalidArgument: it would have missed what a forward pass does here. Several forward passes may precede one backward pass; buffers are broadcast
/// before the first of them only. Gradients of gradients with respect to parameters are not averaged. Sparse gradients are Unsupported. The module
/// must stay as it was: a forward pass throws InvalidArgument, naming the parameter, after one was replaced, added, frozen, or changed its dtype,
/// shape or device.
template <libtorch::ModuleHandle Holder>
class DataParallel {
 public:
  using ContainedType = typename libtorch::contained<Holder>::type;

  DataParallel(Holder holder, const AutoModelOptions& options)
      : holder_(std::move(holder)), replica_(std::make_shared<libtorch::Replica>(libtorch::contained<Holder>::pointer(holder_), options)) {}

  /// The module's forward.
  template <class... Args>
  auto forward(Args&&... args) {
    return call([&](ContainedType& module) { return module.forward(std::forward<Args>(args)...); });
  }
  template <class... Args>
  auto operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }
  /// f(module) as a forward pass: for modules that have several.
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

  ContainedType* operator->() { return &*holder_; }
  const ContainedType* operator->() const { return &*holder_; }
  ContainedType& operator*() { return *holder_; }
  const ContainedType& operator*() const { return *holder_; }
  const Holder& module() const noexcept { return holder_; }
  std::vector<at::Tensor> parameters(bool recurse = true) const { return (*this)->parameters(recurse); }

  [[nodiscard]] NoSync no_sync() { return NoSync(replica_); }
  BackwardTimes backward_times() const { return replica_->times(); }  ///< without buckets in a group of one
  const ProcessGroup& group() const { return replica_->group(); }

 private:
  Holder holder_;
  std::shared_ptr<libtorch::Replica> replica_;
};

/// Makes a model one that all ranks train together. Moves it to device() if it is elsewhere, compares names, dtypes, shapes, devices and
/// requires_grad of its parameters and buffers, and the options, between the ranks (Mismatch names the first difference), and gives all ranks the
/// values of rank 0. A collective call. InvalidArgument for an empty holder, a model without parameters' memory (meta), and one on two devices. In a
/// group of one the model stays as it is.
template <class Holder>
requires libtorch::ModuleHandle<std::remove_cvref_t<Holder>> DataParallel<std::remove_cvref_t<Holder>> auto_model(
    Holder&& model, const AutoModelOptions& options = {}) {
  return DataParallel<std::remove_cvref_t<Holder>>(std::forward<Holder>(model), options);
}

}  // namespace unisono
