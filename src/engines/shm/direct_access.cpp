#include "engines/shm/direct_access.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <sched.h>

#include "base/environment.h"
#include "base/log.h"
#include "engines/shm/copy_trial.h"

namespace unisono::engines::shm {
namespace {

std::uint64_t address_of(const TensorView& view) { return reinterpret_cast<std::uintptr_t>(view.data()); }

/// An empty view counts as lying in the pool.
bool lies_in(const base::SharedPool& pool, const TensorView& view) {
  return view.numel() == 0 || pool.offset_of(view.data(), view.bytes()).has_value();
}

bool lie_in_pool(const CollectiveCall& call) {
  const base::SharedPool* pool = base::shared_pool();
  return pool != nullptr && lies_in(*pool, call.in) && lies_in(*pool, call.out);
}

/// Returns the time of a clock that all processes of the host share.
CopyTuner::Ticks ticks_now() {
  constexpr int shift = 4;  // 16 ns
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<CopyTuner::Ticks>(static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()) >> shift);
}

/// Returns true where a time is after another one, less than half a round of the clock apart, which takes 68 s.
bool is_after(CopyTuner::Ticks time, CopyTuner::Ticks other) { return static_cast<std::int32_t>(time - other) > 0; }

/// Returns the number of the processor on which this thread runs now.
std::uint16_t processor_now() { return static_cast<std::uint16_t>(::sched_getcpu()); }

}  // namespace

bool DirectAccess::suits(const CollectiveCall& call) const {
  const std::size_t element = size_of(call.in.dtype()), ranks = static_cast<std::size_t>(segment_.ranks());
  if (call.operation == Operation::all_to_all_v) return std::max(call.counts.total(), call.recv_counts.total()) * element >= ranks * least_bytes;
  // The size is that of all blocks: counts that differ while their sum does not are compared in the same way on all ranks.
  if (has_counts(call.operation)) return call.count * element >= ranks * least_bytes;
  return call.operation >= Operation::all_reduce && call.operation <= Operation::all_to_all && call.count * element >= least_bytes;
}

bool DirectAccess::leaves_in_buffer(const CollectiveCall& call) const {
  return segment_.ranks() > 1 && suits(call) && ((all_map_ && lie_in_pool(call)) || (reads(call) && may_be_read()));
}

bool DirectAccess::reads(const CollectiveCall& call) const {
  if (!range_) return false;
  const bool by_rule = reads_by_rule(call);
  const auto cell = cell_of(call);
  return cell ? tuner_of(call).method(*cell, by_rule ? CopyTuner::Method::read : CopyTuner::Method::staged) == CopyTuner::Method::read : by_rule;
}

// A range without an end was asked for.
std::optional<CopyTuner::Cell> DirectAccess::cell_of(const CollectiveCall& call) const {
  if (!range_ || range_->up_to == 0) return std::nullopt;
  const bool is_own = call.operation == Operation::all_to_all_v;
  if (is_own && all_map_ && lie_in_pool(call)) return std::nullopt;
  return CopyTuner::cell_of(is_own ? Operation::all_to_all : call.operation, bytes_of_rank(call, segment_.ranks()));
}

void DirectAccess::begin(const CollectiveCall& call) {
  made_trial_ = false;
  is_timed_ = cell_of(call).has_value();
  if (is_timed_) begins_ = ticks_now();
}

void DirectAccess::end(const CollectiveCall& call, std::optional<CopyTuner::Method> method) {
  if (!std::exchange(is_timed_, false) || !method) return;
  const auto cell = cell_of(call);
  if (!cell) return;
  const CopyTuner::Ticks ends = ticks_now();
  tuner_of(call).ended(*cell, *method, reads_by_rule(call) ? CopyTuner::Method::read : CopyTuner::Method::staged);
  if (call.operation == Operation::all_to_all_v) {
    own_tuner_.measured(made_trial_ ? std::nullopt : std::optional(ends - begins_));
    return;
  }
  began_ = begins_;
  ended_ = ends;
  is_undisturbed_ = !made_trial_;
}

void DirectAccess::take_time(std::uint32_t step) {
  const Announcement first = segment_.line(0, step).announcement();
  CopyTuner::Ticks began = first.began, ended = first.ended;
  for (int r = 1; r < segment_.ranks(); ++r) {
    const Announcement other = segment_.line(r, step).announcement();
    if (is_after(other.began, began) != is_crowded_) began = other.began;
    if (is_after(other.ended, ended)) ended = other.ended;
  }
  tuner_.measured(is_undisturbed_ && is_after(ended, began) ? std::optional(ended - began) : std::nullopt);
}

Announcement DirectAccess::announce(const CollectiveCall& call) {
  private_.publish_card();
  Announcement announcement{.in = address_of(call.in), .out = address_of(call.out), .reads_all = reads_all_ && may_be_read()};
  if (reads_all_) announcement.set_range(*own_range_);
  announcement.began = began_;
  announcement.ended = ended_;
  announcement.streams = streams_;
  if (is_crowded_ && rank_ == 0) announcement.processor = processor_now();
  announcement.tries = rank_ == 0 && repeats_trial() && std::chrono::steady_clock::now() - last_trial_ >= trial_pause_;
  if (!lie_in_pool(call)) return announcement;
  const base::SharedPool* pool = base::shared_pool();
  announcement.in_pools = 1;
  announcement.maps_all = maps_all_;
  PoolCard& card = segment_.member(rank_).pool;  // written once, and read by no rank before the step of this announcement
  if (card.inode != pool->inode()) card = {pool->inode(), reinterpret_cast<std::uintptr_t>(pool->base()), pool->size(), pool->descriptor()};
  return announcement;
}

template <class Test>
bool DirectAccess::all(std::uint32_t step, Test&& test) const {
  for (int r = 0; r < segment_.ranks(); ++r) {
    if (!test(segment_.line(r, step).announcement())) return false;
  }
  return true;
}

bool DirectAccess::all_in_reached_pools(std::uint32_t step) const {
  return all(step, [](const Announcement& each) { return each.in_pools != 0 && each.maps_all != 0; });
}

bool DirectAccess::all_read(std::uint32_t step) const {
  return all(step, [](const Announcement& each) { return each.reads_all != 0; });
}

void DirectAccess::note(std::uint32_t step) {
  for (int r = 0; r < segment_.ranks(); ++r) {
    if (!segment_.line(r, step).announces) return;
  }
  if (!tried_to_read_) {
    tried_to_read_ = true;
    find_range(step, CopyTrial::Repeat::no);
  }
  take_time(step);
  follow_rank_0(step);
  expected_ = all_in_reached_pools(step);
  all_map_ = all_map_ || expected_;
  if (tried_to_map_ || !all(step, [](const Announcement& each) { return each.in_pools != 0; })) return;
  tried_to_map_ = true;
  maps_all_ = map_all();
}

void DirectAccess::follow_rank_0(std::uint32_t step) {
  const Announcement first = segment_.line(0, step).announcement();
  range_.reset();
  if (all_read(step)) range_ = first.range();
  Staging::set_past_caches(asked_staging_.value_or(first.streams != 0));
  made_trial_ = first.tries != 0;
  if (made_trial_) find_range(step, CopyTrial::Repeat::yes);
}

// A rank that shares processors takes part if it runs on another one than rank 0: two on the same processor would measure the scheduler.
bool DirectAccess::takes_part(std::uint32_t step) const {
  return is_crowded_ ? rank_ != 0 && segment_.line(0, step).announcement().processor != processor_now() : rank_ == 1;
}

void DirectAccess::find_range(std::uint32_t step, CopyTrial::Repeat repeat) {
  std::optional<CopyTrial::Found> found;
  if (can_try()) {
    CopyTrial trial(segment_, private_, step + 1, trials_++);
    if (rank_ == 0) found = trial.lead(repeat);
    else if (takes_part(step)) trial.follow(rank_);
    last_trial_ = std::chrono::steady_clock::now();
  }
  if (found) streams_ = found->past_caches;
  own_range_ = single_copy_range(base::Environment::process(), single_copy_rule(SingleCopyOf::collectives, found ? found->from : std::nullopt));
  reads_all_ = own_range_ && private_.finds_all();
  if (repeat == CopyTrial::Repeat::yes) return;
  if (reads_all_) base::debug(fmt::format("private buffers of other ranks are read where they lie, in blocks from {} KiB on", own_range_->from));
  else
    base::debug(own_range_ ? "the system does not let this rank read the memory of all others: private buffers are staged"
                           : "private buffers are staged");
}

Source DirectAccess::source(int rank, std::uint32_t step, std::uint64_t address) const {
  const std::byte* const pool = pools_[static_cast<std::size_t>(rank)];
  if (pool == nullptr || segment_.line(rank, step).announcement().in_pools == 0) return {nullptr, address};
  const PoolCard& card = segment_.member(rank).pool;
  const std::uint64_t offset = address - card.base;
  if (offset > card.size) return {nullptr, address};  // of an empty view, which counts as lying in the pool
  return {pool + offset, address};
}

std::byte* DirectAccess::scratch(std::size_t bytes) {
  if (scratch_.size() < bytes) scratch_.resize(bytes);
  return scratch_.data();
}

void DirectAccess::cannot_read(int rank, int error) const { throw_unreadable(segment_, rank_, rank, error, "the call began"); }

bool DirectAccess::map_all() {
  const base::SharedPool* own = base::shared_pool();
  for (int r = 0; r < segment_.ranks(); ++r) {
    const Member& member = segment_.member(r);
    auto& base = pools_[static_cast<std::size_t>(r)];
    const int pid = member.pid.load(std::memory_order_relaxed);
    if (r == rank_ || pid == 0) {  // a thread of this process
      base = own->base();
      continue;
    }
    auto pool = base::MappedPool::map(pid, member.pool.descriptor, member.pool.inode, member.pool.size);
    if (!pool) {
      mapped_.clear();
      std::ranges::fill(pools_, nullptr);
      return false;
    }
    base = pool->base();
    mapped_.push_back(std::move(pool));
  }
  return true;
}

}  // namespace unisono::engines::shm
