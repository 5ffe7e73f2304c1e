#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "unisono/process_group.h"
#include "unisono/torch/compression.h"

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

}  // namespace unisono::libtorch
