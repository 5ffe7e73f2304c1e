#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <concepts>
#include <memory>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <vector>

#include "unisono/export.h"
#include "unisono/process_group.h"

// The part of DataParallel that does not depend on the type of the module.

namespace unisono {

struct AutoModelOptions;
struct BackwardTimes;

namespace libtorch {

/// Reduces the gradients of a model bucket by bucket.
class Reducer;

/// The module that a holder contains, and a shared pointer to it.
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

/// A handle of a module: a holder made by TORCH_MODULE, or a std::shared_ptr.
template <class Holder>
concept ModuleHandle = requires {
  typename contained<Holder>::type;
}
&&std::derived_from<typename contained<Holder>::type, torch::nn::Module>;

/// A pair, tuple or array.
template <class T>
concept tuple_like = requires {
  std::tuple_size<T>::value;  // NOLINT(modernize-type-traits): tuple_size_v of another type is an error
};

/// Collects the tensors in the result of a forward pass: in tensors, optionals, pairs, tuples,
/// arrays, vectors and maps of them. It sees none in results of other types.
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

/// The part that all copies of a DataParallel share. Its constructor gives the module's parameters
/// and buffers the values of rank 0, and reduces its gradients from then on.
class UNISONO_API Replica {
 public:
  Replica(std::shared_ptr<torch::nn::Module> module, const AutoModelOptions& options);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  /// Is called before each forward pass: broadcasts the buffers, and checks that the module is as
  /// it was.
  void before_forward();
  /// Is called with the tensors of the result after each forward pass.
  void after_forward(const std::vector<at::Tensor>& outputs);
  /// Returns the group whose samples batch normalisation looks at; null if it is not synchronised.
  const ProcessGroup* batch_norm_group() const;
  /// Tells whether `after_forward` looks at the tensors of the result.
  bool wants_outputs() const;
  /// Adds to the number of NoSync objects that live.
  void hold_reduction(int change);
  /// Returns the times of the last backward pass that was reduced.
  BackwardTimes times() const;
  /// Returns the group whose ranks train the model.
  const ProcessGroup& group() const;

 private:
  std::shared_ptr<torch::nn::Module> module_;
  ProcessGroup group_;
  bool sync_bn_;
  std::shared_ptr<Reducer> reducer_;  // none in a group of one
};

}  // namespace libtorch

}  // namespace unisono
