#include "engines/shm/direct_access.h"

#include <algorithm>
#include <utility>

namespace unisono::engines::shm {
namespace {

std::uint64_t address_of(const TensorView& view) { return reinterpret_cast<std::uintptr_t>(view.data()); }

}  // namespace

bool DirectAccess::suits(const CollectiveCall& call) const {
  const std::size_t element = size_of(call.in.dtype()), ranks = static_cast<std::size_t>(segment_.ranks());
  if (call.operation == Operation::all_to_all_v) return std::max(call.counts.total(), call.recv_counts.total()) * element >= ranks * least_bytes;
  // The size is that of all blocks: counts that differ while their sum does not are compared in the same way on all ranks.
  if (has_counts(call.operation)) return call.count * element >= ranks * least_bytes;
  return call.count * element >= least_bytes && !is_prefix(call.operation);
}

bool DirectAccess::leaves_in_buffer(const CollectiveCall& call) const { return segment_.ranks() > 1 && suits(call) && pools_.reach(call); }

Announcement DirectAccess::announce(const CollectiveCall& call) {
  Announcement announcement{.in = address_of(call.in), .out = address_of(call.out)};
  pools_.announce(call, announcement);
  return announcement;
}

void DirectAccess::note(std::uint32_t step) {
  for (int r = 0; r < segment_.ranks(); ++r) {
    if (!segment_.line(r, step).announces()) return;
  }
  pools_.note(step);
}

}  // namespace unisono::engines::shm
