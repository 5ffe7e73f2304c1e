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

// The form in which the gradients of a model travel between the ranks
// (AutoModelOptions::compression).
//
// ```cpp
// auto model = auto_model(Net(), {.compression = Compression::bfloat16()});
// ```

namespace unisono {

/// Gradients that travel together.
struct GradientBucket {
  /// All gradients, one behind the other: one dimension, dense. Gaps between them are zero.
  at::Tensor buffer = {};
  /// Views of the buffer, each of the shape of its parameter.
  std::vector<at::Tensor> gradients = {};
  /// The parameter of each gradient, as its place among those of the model's parameters() that are
  /// trained.
  std::vector<std::size_t> parameters = {};
  /// The number of this bucket. Buckets are reduced in this order, on all ranks.
  std::size_t index = 0;
  /// Whether it is the last bucket of a backward pass.
  bool is_last = false;
};

/// The options of PowerSGD (Vogels, Karimireddy, Jaggi: PowerSGD: Practical Low-Rank Gradient
/// Compression for Distributed Optimization, NeurIPS 2019).
///
/// Each gradient, seen as a matrix of its first dimension by all others, is sent as two thin
/// factors. Gradients with one dimension and small ones are averaged as they are, and so are those
/// that are not float32, float64, float16 or bfloat16.
struct PowerSgdOptions {
  /// The rank of the factors. A rank that is no less than the matrix's gives the exact average.
  int rank = 1;
  /// The number of first backward passes that are averaged exactly, which is worth it early in a
  /// training.
  std::int64_t start_iteration = 10;
  /// Matrices that would not shrink by this factor are averaged as they are.
  double min_compression_rate = 2;
  /// Whether the loss of compression is added to the next gradient. It takes the gradients' memory
  /// once more.
  bool use_error_feedback = true;
  /// Whether a step begins with the factor of the last step; otherwise with a random one.
  bool warm_start = true;
  /// The seed of the first factors, the same on all ranks.
  std::uint64_t seed = 0;
};

/// No compression, a compression that comes with the library, or a callable of the program's own.
class UNISONO_API Compression {
 public:
  /// Is called at the end of the backward pass. When it returns, the buffer holds the average.
  using Finish = std::function<void()>;
  /// Is called when a bucket is full, in the order of the buckets, while the backward pass goes on.
  ///
  /// It may begin asynchronous operations on the group, the same on all ranks and in the same
  /// order; nothing else uses that group meanwhile. If it returns an empty Finish, the buffer holds
  /// the average already.
  using Hook = std::function<Finish(const GradientBucket& bucket, const ProcessGroup& group)>;

  /// The jobs in which gradients are made narrower. Between processes of one host that takes longer
  /// than it saves, unless the gradients lie on a device.
  enum class Where {
    between_hosts,  ///< in jobs of several hosts, and for gradients on a device; otherwise they
                    ///< travel as they are, and rank 0 warns once
    everywhere
  };

  /// Averages the gradients as they are.
  Compression();
  /// Lets float32 and float64 gradients travel as float16. They are summed in float32 and rounded
  /// once; numbers beyond 65504 become infinite.
  static Compression float16(Where where = Where::between_hosts);
  /// Lets float32 and float64 gradients travel as bfloat16: the range of float32, 8 bits of
  /// precision.
  static Compression bfloat16(Where where = Where::between_hosts);
  /// Sends two thin factors of each gradient.
  ///
  /// @throws InvalidArgument for a rank less than 1, a start_iteration below 0, or a compression
  ///   rate that is not positive
  static Compression power_sgd(const PowerSgdOptions& options = {});

  /// Takes a callable of the program's own, which is called for each bucket:
  ///
  ///     Finish f(const GradientBucket&, const ProcessGroup&)
  ///     void   f(const GradientBucket&, const ProcessGroup&)
  ///     void   f(at::Tensor buffer, const ProcessGroup&)
  ///
  /// The latter two leave the average in the buffer.
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, Compression> &&
           (std::invocable<F&, const GradientBucket&, const ProcessGroup&> || std::invocable<F&, at::Tensor, const ProcessGroup&>))
      Compression(F&& function)  // NOLINT(google-explicit-constructor): a callable stands for itself
      : Compression("a hook of the user's", [f = std::forward<F>(function)] { return hook_of(f); }) {}

  /// Returns the name that ranks compare.
  const std::string& name() const noexcept { return name_; }
  /// Makes a hook for one model, whose memory (PowerSGD's factors, for instance) is that model's.
  /// Empty if there is no compression.
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
        static_assert(std::is_void_v<Result>, "unisono: a compression hook returns nothing, or a function to call at the end of the backward pass");
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
