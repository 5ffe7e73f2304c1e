#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "unisono/process_group.h"
#include "unisono/torch/compression.h"
#include "unisono/torch/data_parallel.h"
#include "unisono/work.h"

namespace unisono::libtorch {

struct BucketCaps {
  std::size_t first = 0, later = 0;  ///< in bytes
};

/// Converts `bucket_cap_mb` to bytes. On the cpu, 25 stands for an equal share of a quarter of the last-level cache.
BucketCaps bucket_caps(double bucket_cap_mb, const at::Device& device, int ranks_on_host);

/// Distributes the parameters to buckets in the given `order`. A bucket has one dtype and is not larger than its cap, unless a single gradient is.
/// The buckets are sorted by their first parameters.
std::vector<std::vector<std::size_t>> assign_buckets(std::span<const at::Tensor> parameters, std::span<const std::size_t> order, BucketCaps caps);

/// Makes a bucket filled with zeros, on the cpu in memory that the ranks share, elsewhere in the device's memory. Every gradient begins on a cache
/// line and has the strides of its parameter where that is dense.
GradientBucket make_bucket(std::span<const at::Tensor> parameters, std::vector<std::size_t> members, std::size_t index, bool is_last);

/// The buckets of the gradients of a module. A bucket is averaged over the group once its gradients are there, and those before it.
class BucketReduction {
 public:
  /// The place of a parameter's gradient.
  struct Position {
    std::size_t bucket = 0, slot = 0;
  };

  BucketReduction(ProcessGroup group, BucketCaps caps, Compression::Hook hook) : group_(std::move(group)), caps_(caps), hook_(std::move(hook)) {}

  /// Distributes the parameters to new buckets, in that order. Returns the places of their gradients.
  std::vector<Position> lay_out(std::span<const at::Tensor> parameters, std::span<const std::size_t> order);
  /// Returns the parameters in the order of the buckets.
  std::vector<std::size_t> order() const;
  const at::Tensor& gradient(const Position& place) const { return buckets_[place.bucket].content.gradients[place.slot]; }

  /// Begins a pass, in which no gradient is there yet.
  void begin();
  /// One more gradient of the bucket is there: starts the buckets that are full now.
  void filled(const Position& place);
  /// Waits for all buckets, and for `status`. Throws the first error afterwards.
  void wait(Work& status);
  /// Returns when the buckets were on their way. `name_of`: of a parameter.
  std::vector<BucketTimes> times(const std::function<std::string(std::size_t)>& name_of) const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Bucket {
    GradientBucket content;
    std::size_t pending = 0;
    Work work = {};
    Compression::Finish finish = {};
    Clock::time_point started = {}, completed = {};
    std::shared_ptr<std::atomic<Clock::rep>> work_completed = {};
  };

  static void abandon(Bucket& bucket);
  void start(Bucket& bucket);

  const ProcessGroup group_;
  const BucketCaps caps_;
  const Compression::Hook hook_;
  std::vector<Bucket> buckets_;
  std::size_t next_ = 0;  // the next bucket to start
};

}  // namespace unisono::libtorch
