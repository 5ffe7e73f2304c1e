#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "unisono/export.h"
#include "unisono/process_group.h"

// How the gradients of a model travel between the ranks (AutoModelOptions::compression).

namespace unisono {

/// Gradients that travel together.
struct GradientBucket {
  at::Tensor buffer = {};                    ///< all of them, one behind the other: 1-d, dense; gaps between them are zero
  std::vector<at::Tensor> gradients = {};    ///< views of the buffer, each of the shape of its parameter
  std::vector<std::size_t> parameters = {};  ///< whose gradients they are: places among the model's parameters() that are trained, each counted once
  std::size_t index = 0;                     ///< of this bucket; buckets are reduced in this order, on all ranks
  bool is_last = false;                      ///< of a backward pass
};

/// PowerSGD (Vogels, Karimireddy, Jaggi: PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization, NeurIPS 2019). Each
/// gradient, seen as a matrix of its first dimension by all others, is sent as two thin factors. Gradients with one dimension and small ones are
/// averaged as they are, and so are those that are not float32, float64, float16 or bfloat16.
struct PowerSgdOptions {
  int rank = 1;                       ///< of the factors; one that is no less than the matrix's gives the exact average
  std::int64_t start_iteration = 10;  ///< backward passes before it that are averaged exactly: the first steps are worth it
  double min_compression_rate = 2;    ///< matrices that would not shrink by it are averaged as they are
  bool use_error_feedback = true;     ///< what compression has lost is added to the next gradient. Takes the gradients' memory once more
  bool warm_start = true;             ///< the factor of the last step is where the next begins; else random each time
  std::uint64_t seed = 0;             ///< of the first factors, the same on all ranks
};

/// None, one of those that come with the library, or a callable of the user's own.
class UNISONO_API Compression {
 public:
  /// Called at the end of the backward pass; when it returns, the buffer holds the average.
  using Finish = std::function<void()>;
  /// Called when the bucket is full, in the order of the buckets, while the backward pass goes on. May begin asynchronous operations on the group
  /// (the same on all ranks, in the same order), which nothing else uses meanwhile. An empty Finish: the buffer holds the average already.
  using Hook = std::function<Finish(const GradientBucket& bucket, const ProcessGroup& group)>;

  Compression();  ///< none: averaged as they are
  /// float32 and float64 gradients travel as float16. They are summed in float32 and rounded once; what is beyond 65504 becomes infinite.
  static Compression float16();
  /// The same as bfloat16: the range of float32, 8 bits of precision.
  static Compression bfloat16();
  /// InvalidArgument for a rank less than 1, a start_iteration below 0, or a compression rate that is not positive.
  static Compression power_sgd(const PowerSgdOptions& options = {});

  /// A user's own, one of
  ///   Finish f(const GradientBucket&, const ProcessGroup&)
  ///   void f(const GradientBucket&, const ProcessGroup&)
  ///   void f(at::Tensor buffer, const ProcessGroup&)
  /// the latter two leave the average in the buffer.
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, Compression> &&
           (std::invocable<F&, const GradientBucket&, const ProcessGroup&> || std::invocable<F&, at::Tensor, const ProcessGroup&>))
      Compression(F&& function)  // NOLINT(google-explicit-constructor): a callable stands for itself
      : Compression("a hook of the user's", [f = std::forward<F>(function)] { return hook_of(f); }) {}

  /// What ranks compare.
  const std::string& name() const noexcept { return name_; }
  /// One for a model: what it remembers is that model's. Empty for none.
  Hook make_hook() const;

 private:
  Compression(std::string name, std::function<Hook()> make);

  template <class F>
  static Hook hook_of(F f) {
    if constexpr (std::invocable<F&, const GradientBucket&, const ProcessGroup&>) {
      using Result = std::invoke_result_t<F&, const GradientBucket&, const ProcessGroup&>;
      if constexpr (std::convertible_to<Result, Finish>) {
        return Hook(std::move(f));
      } else {
        static_assert(std::is_void_v<Result>, "unisono: a compression hook returns nothing, or what is to be called at the end of the backward pass");
        return [f = std::move(f)](const GradientBucket& bucket, const ProcessGroup& group) mutable {
          f(bucket, group);
          return Finish();
        };
      }
    } else {
      return [f = std::move(f)](const GradientBucket& bucket, const ProcessGroup& group) mutable {
        f(bucket.buffer, group);
        return Finish();
      };
    }
  }

  std::string name_;
  std::function<Hook()> make_;
};

}  // namespace unisono
