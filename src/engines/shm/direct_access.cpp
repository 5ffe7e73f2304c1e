#include "engines/shm/direct_access.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

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

bool DirectAccess::is_trial_due(bool is_large) {
  constexpr std::uint32_t calls_between_looks = 64;  // at the clock
  if (!is_large && Staging::word() != StagingWord::nothing) return false;
  if (is_crowded_ || segment_.ranks() == 1 || segment_.slot_bytes() < CopyTrial::block_bytes) return false;
  return calls_++ % calls_between_looks == 0 && base::Clock::now() >= next_trial_;
}

void DirectAccess::follow(std::uint32_t step, StagingWord told) {
  if (told == StagingWord::trial) make_trial(step);
  else if (told != StagingWord::nothing) Staging::set(told);
}

void DirectAccess::make_trial(std::uint32_t step) {
  constexpr std::chrono::milliseconds between_trials{250};  // each of which takes less than a thousandth of that
  CopyTrial trial(segment_, step + 1, trials_++);
  if (rank_ > 1) return;
  const auto streams = rank_ == 0 ? trial.lead() : trial.follow();
  next_trial_ = base::Clock::now() + between_trials;
  if (!streams) return;
  const StagingWord before = Staging::word();
  Staging::set_past_caches(*streams);
  if (before != Staging::word()) base::debug(fmt::format("slots are written {} the caches", *streams ? "past" : "through"));
}

}  // namespace unisono::engines::shm
