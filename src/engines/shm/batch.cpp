#include "engines/shm/batch.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace unisono::engines::shm {
namespace {

constexpr std::size_t entry_alignment = 8;

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + entry_alignment - 1) / entry_alignment * entry_alignment; }

bool overlap(const TensorView& a, const TensorView& b) {
  const auto* const begin_a = static_cast<const std::byte*>(a.data());
  const auto* const begin_b = static_cast<const std::byte*>(b.data());
  return a.numel() > 0 && b.numel() > 0 && begin_a < begin_b + b.bytes() && begin_b < begin_a + a.bytes();
}

}  // namespace

bool Batch::pays(const base::Environment& environment, bool is_crowded) {
  const auto asked = environment.get("UNISONO_COALESCE");
  return asked == "on" || (asked != "off" && is_crowded);
}

void QueuedTask::take_along(std::span<QueuedTask* const> followers) { task().lead(followers); }

bool QueuedTask::is_over() {
  if (!is_over_) return false;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return true;
}

// The elements of a leader whose data does not travel in its line come first.
std::size_t Batch::first_place(const LockstepTask& leader) { return leader.inline_ ? 0 : aligned(leader.step_bytes_); }

std::size_t Batch::next_place(const LockstepTask& task, std::size_t place) { return place + aligned(sizeof(Signature) + task.step_bytes_); }

// The ranks that have come already show how many calls they have.
std::size_t Batch::most_for(const LockstepTask& leader) const {
  std::size_t most = calls_.size();
  bool all_are_here = true;
  const std::uint32_t step = leader.first_;
  for (int r = 0; r < leader.size(); ++r) {
    if (r == leader.rank()) continue;
    if (leader.arrived(r, step)) most = std::min<std::size_t>(most, leader.segment().line(r, step).followers);
    else all_are_here = false;
  }
  return all_are_here ? most : std::min(most, limit_);
}

bool Batch::reads_results(const LockstepTask& leader, std::size_t i) const {
  const TensorView& in = calls_[i]->task().call_.in;
  if (overlap(in, leader.call_.out)) return true;
  return std::any_of(calls_.begin(), calls_.begin() + static_cast<std::ptrdiff_t>(i),
                     [&](QueuedTask* before) { return overlap(in, before->task().call_.out); });
}

std::uint8_t Batch::board(LockstepTask& leader) {
  const std::size_t most = most_for(leader);
  const std::size_t end = std::min(most_bytes, leader.engine_.step_bytes());
  std::byte* const slot = leader.segment().inbox(leader.rank(), leader.first_);
  std::size_t place = first_place(leader);
  std::size_t i = 0;
  for (; i < most; ++i) {
    LockstepTask& task = calls_[i]->task();
    const std::size_t next = next_place(task, place);
    if (next > end || reads_results(leader, i)) break;
    std::memcpy(slot + place, &task.signature_, sizeof task.signature_);
    task.produce_at(leader.first_, place + sizeof task.signature_);
    place = next;
  }
  calls_.resize(i);
  return static_cast<std::uint8_t>(i);
}

void Batch::carry_out(LockstepTask& leader) {
  std::size_t count = calls_.size();
  for (int r = 0; r < leader.size(); ++r) {
    if (r != leader.rank()) count = std::min<std::size_t>(count, leader.segment().line(r, leader.first_).followers);
  }
  adapt(count);
  std::size_t place = first_place(leader);
  for (std::size_t i = 0; i < count; ++i) {
    QueuedTask& call = *calls_[i];
    const std::size_t here = std::exchange(place, next_place(call.task(), place));
    call.is_over_ = true;
    try {
      carry_out(call.task(), here);
    } catch (...) {
      call.error_ = std::current_exception();
      return;
    }
  }
}

void Batch::carry_out(LockstepTask& task, std::size_t place) {
  const auto signature_of_rank = [&](int r) {
    Signature signature;
    std::memcpy(&signature, task.segment().inbox(r, task.first_) + place, sizeof signature);
    return signature;
  };
  for (int r = 0; r < task.size(); ++r) {
    if (r == task.rank() || signature_of_rank(r) == task.signature_) [[likely]]
      continue;
    std::vector<Ballot> ballots;
    for (int each = 0; each < task.size(); ++each) ballots.push_back(ballot_of(task.segment().name_of(each), signature_of_rank(each), {}));
    const Decision decision = decide(ballots);
    throw task.disagreement(decision, std::move(ballots));
  }
  task.consume(0);
}

// Twice as many after a step that has carried all of them; else as many as the others had.
void Batch::adapt(std::size_t carried) {
  if (calls_.empty()) return;
  limit_ = carried == calls_.size() ? std::max(limit_, std::min(2 * carried, most_calls)) : std::max<std::size_t>(carried, 1);
}

}  // namespace unisono::engines::shm
