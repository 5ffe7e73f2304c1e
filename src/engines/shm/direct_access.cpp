#include "engines/shm/direct_access.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <sched.h>

#include "base/environment.h"
#include "base/log.h"

namespace unisono::engines::shm {
namespace {

std::uint64_t address_of(const TensorView& view) { return reinterpret_cast<std::uintptr_t>(view.data()); }

/// Returns the number of the processor on which this thread runs now.
std::uint16_t processor_now() { return static_cast<std::uint16_t>(::sched_getcpu()); }

}  // namespace

bool DirectAccess::suits(const CollectiveCall& call) const {
  const std::size_t element = size_of(call.in.dtype()), ranks = static_cast<std::size_t>(segment_.ranks());
  if (call.operation == Operation::all_to_all_v) return std::max(call.counts.total(), call.recv_counts.total()) * element >= ranks * least_bytes;
  // The size is that of all blocks: counts that differ while their sum does not are compared in the same way on all ranks.
  if (has_counts(call.operation)) return call.count * element >= ranks * least_bytes;
  return call.count * element >= least_bytes && !is_prefix(call.operation);
}

bool DirectAccess::leaves_in_buffer(const CollectiveCall& call) const {
  return segment_.ranks() > 1 && suits(call) && (pools_.reach(call) || (reads(call) && may_be_read()));
}

Announcement DirectAccess::announce(const CollectiveCall& call) {
  private_.publish_card();
  if (!found_) found_ = CopyTrial::known();  // another group of this process may have made the trial meanwhile
  Announcement announcement{.in = address_of(call.in), .out = address_of(call.out), .reads_all = reads_all_ && may_be_read()};
  if (reads_all_) announcement.range = *own_range_;
  announcement.streams = found_ && found_->past_caches;
  announcement.tries = makes_trial();
  if (is_crowded_ && announcement.tries != 0) announcement.processor = processor_now();
  pools_.announce(call, announcement);
  return announcement;
}

bool DirectAccess::all_read(std::uint32_t step) const {
  return segment_.all_announce(step, [](const Announcement& each) { return each.reads_all != 0; });
}

void DirectAccess::note(std::uint32_t step) {
  for (int r = 0; r < segment_.ranks(); ++r) {
    if (!segment_.line(r, step).announces) return;
  }
  const Announcement first = segment_.line(0, step).announcement();
  if (!std::exchange(tried_to_read_, true) || first.tries != 0) find_range(step, first.tries != 0);
  range_.reset();
  if (all_read(step)) range_ = first.range;
  Staging::set_past_caches(first.streams != 0);
  pools_.note(step);
}

// A rank that shares processors takes part if it runs on another one than rank 0: two on the same processor would measure the scheduler.
bool DirectAccess::takes_part(std::uint32_t step) const {
  return is_crowded_ ? rank_ != 0 && segment_.line(0, step).announcement().processor != processor_now() : rank_ == 1;
}

void DirectAccess::find_range(std::uint32_t step, bool tries) {
  if (tries) {
    CopyTrial trial(segment_, private_, step + 1, trials_++);
    if (rank_ == 0) found_ = trial.lead();
    else if (takes_part(step)) trial.follow(rank_);
  }
  own_range_ = single_copy_range(base::Environment::process(), single_copy_rule(SingleCopyOf::collectives, found_ ? found_->from : 0));
  reads_all_ = own_range_ && private_.finds_all();
  if (reads_all_) base::debug(fmt::format("private buffers of other ranks are read where they lie, in blocks from {} KiB on", own_range_->from));
  else
    base::debug(own_range_ ? "the system does not let this rank read the memory of all others: private buffers are staged"
                           : "private buffers are staged");
}

std::byte* DirectAccess::scratch(std::size_t bytes) {
  if (scratch_.size() < bytes) scratch_.resize(bytes);
  return scratch_.data();
}

void DirectAccess::cannot_read(int rank, int error) const { throw_unreadable(segment_, rank_, rank, error, "the call began"); }

}  // namespace unisono::engines::shm
