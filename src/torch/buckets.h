#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "unisono/process_group.h"
#include "unisono/torch/compression.h"

namespace unisono::libtorch {

struct BucketCaps {
  std::size_t first = 0, later = 0;  ///< bytes
};

/// What `bucket_cap_mb` comes to. 25 on the cpu: an equal share of a quarter of the last-level cache.
BucketCaps bucket_caps(double bucket_cap_mb, const at::Device& device, int ranks_on_host);

/// Which parameters lie in which bucket: taken in `order`, in buckets of one dtype, none larger than its cap unless a single gradient is. The buckets
/// come in the order in which their first parameters do.
std::vector<std::vector<std::size_t>> assign_buckets(std::span<const at::Tensor> parameters, std::span<const std::size_t> order, BucketCaps caps);

/// A bucket in memory that the ranks share (of the cpu; elsewhere the device's own), filled with zeros. Every gradient begins on a cache line and has
/// the strides of its parameter where that is dense.
GradientBucket make_bucket(std::span<const at::Tensor> parameters, std::vector<std::size_t> members, std::size_t index, bool is_last);

}  // namespace unisono::libtorch
