#pragma once

#include <cstddef>
#include <vector>

#include <ATen/core/Tensor.h>

#include "unisono/counts.h"
#include "unisono/process_group.h"

// Assigns parameters to ranks, and copies them from their owners to all ranks.

namespace unisono::libtorch {

/// Extends `owners` to all parameters: the largest of the new ones first, each to the rank that has the fewest bytes so far (Graham's rule of the
/// longest processing time, 1969).
void share_out(const std::vector<at::Tensor>& parameters, int ranks, std::vector<int>& owners);

/// Parameters of one dtype and device that are sent together: those of each rank, in the order of the ranks. Buckets share their memory, which all
/// ranks of the host can reach on the cpu.
struct ZeroBucket {
  std::vector<at::Tensor> parameters = {};  ///< in the order of their ranks
  std::vector<std::size_t> counts = {};     ///< number of elements of each rank
  at::Tensor flat = {};                     ///< all elements
};
std::vector<ZeroBucket> buckets_of(const std::vector<at::Tensor>& parameters, const std::vector<int>& owners, int ranks, std::size_t bucket_bytes);
/// Copies each parameter from its owner to all ranks. Collective.
void exchange(const std::vector<ZeroBucket>& buckets, const ProcessGroup& group);

}  // namespace unisono::libtorch
