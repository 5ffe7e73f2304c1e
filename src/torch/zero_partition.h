#pragma once

#include <cstddef>
#include <vector>

#include <ATen/core/Tensor.h>

#include "unisono/counts.h"
#include "unisono/process_group.h"

// Who keeps which parameters, and how they come to everybody.

namespace unisono::libtorch {

/// Extends `owners` to all parameters: the largest of the new ones first, each to the rank that has the fewest bytes so far (Graham's rule of the
/// longest processing time, 1969).
void share_out(const std::vector<at::Tensor>& parameters, int ranks, std::vector<int>& owners);

/// Parameters of one dtype and device that travel together: for each rank those that it owns, one behind the other. Buckets share the memory that
/// they travel through, which on the cpu all ranks of the host can reach.
struct ZeroBucket {
  std::vector<at::Tensor> parameters = {};  ///< in the order of their ranks
  std::vector<std::size_t> counts = {};     ///< elements of each rank
  at::Tensor flat = {};                     ///< as many elements
};
std::vector<ZeroBucket> buckets_of(const std::vector<at::Tensor>& parameters, const std::vector<int>& owners, int ranks, std::size_t bucket_bytes);
/// Collective: each parameter becomes what it is on its owner.
void exchange(const std::vector<ZeroBucket>& buckets, const ProcessGroup& group);

}  // namespace unisono::libtorch
