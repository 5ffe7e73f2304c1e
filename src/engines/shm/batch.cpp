#include "engines/shm/lockstep.h"

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

std::size_t Batch::next_place(const LockstepTask& call, std::size_t place) { return place + aligned(sizeof(Signature) + call.step_bytes_); }

// The ranks that have come already show how many calls they have.
std::size_t Batch::most_at(std::uint32_t step) const {
  std::size_t most = calls_.size();
  bool all_are_here = true;
  for (int r = 0; r < segment_.ranks(); ++r) {
    if (r == rank_) continue;
    if (segment_.has_arrived(r, step)) most = std::min<std::size_t>(most, segment_.line(r, step).followers);
    else all_are_here = false;
  }
  return all_are_here ? most : std::min(most, limit_);
}

bool Batch::reads_results(std::size_t i) const {
  const TensorView& in = calls_[i]->call().in;
  if (overlap(in, leader_->call().out)) return true;
  return std::any_of(calls_.begin(), calls_.begin() + static_cast<std::ptrdiff_t>(i),
                     [&](LockstepTask* before) { return overlap(in, before->call().out); });
}

std::uint8_t Batch::board(std::uint32_t step, std::size_t taken) {
  const std::size_t most = most_at(step);
  const std::size_t end = std::min(most_bytes, step_bytes_);
  std::byte* const slot = segment_.inbox(rank_, step);
  std::size_t place = aligned(taken);
  std::size_t i = 0;
  for (; i < most; ++i) {
    LockstepTask& call = *calls_[i];
    const std::size_t next = next_place(call, place);
    if (next > end || reads_results(i)) break;
    std::memcpy(slot + place, &call.signature_, sizeof(Signature));
    call.produce_at(step, place + sizeof(Signature));
    place = next;
  }
  calls_.resize(i);
  return static_cast<std::uint8_t>(i);
}

void Batch::carry_out(std::uint32_t step, std::size_t taken) {
  std::size_t count = calls_.size();
  for (int r = 0; r < segment_.ranks(); ++r) {
    if (r != rank_) count = std::min<std::size_t>(count, segment_.line(r, step).followers);
  }
  adapt(count);
  std::size_t place = aligned(taken);
  for (std::size_t i = 0; i < count; ++i) {
    LockstepTask& call = *calls_[i];
    try {
      carry_out(call, step, std::exchange(place, next_place(call, place)));
    } catch (...) {
      call.fail(std::current_exception());
      return;
    }
  }
}

void Batch::carry_out(LockstepTask& call, std::uint32_t step, std::size_t place) const {
  const auto signature_of_rank = [&](int r) {
    Signature signature;
    std::memcpy(&signature, segment_.inbox(r, step) + place, sizeof signature);
    return signature;
  };
  for (int r = 0; r < segment_.ranks(); ++r) {
    if (r == rank_ || signature_of_rank(r) == call.signature_) [[likely]]
      continue;
    std::vector<Ballot> ballots;
    for (int each = 0; each < segment_.ranks(); ++each) ballots.push_back(ballot_of(segment_.name_of(each), signature_of_rank(each), {}));
    const Decision decision = decide(ballots);
    throw disagreement_on(call.call(), segment_.name_of(rank_), decision, std::move(ballots));
  }
  call.consume_there();
}

// Twice as many after a step that has carried all of them; else as many as the others had.
void Batch::adapt(std::size_t carried) {
  if (calls_.empty()) return;
  limit_ = carried == calls_.size() ? std::max(limit_, std::min(2 * carried, most_calls)) : std::max<std::size_t>(carried, 1);
}

}  // namespace unisono::engines::shm
