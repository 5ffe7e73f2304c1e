#include "engines/shm/copy_trial.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "base/notifier.h"
#include "kernels/copy.h"

namespace unisono::engines::shm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t most_places = 8;        // of blocks in the slot
constexpr std::uint32_t numbers_of_trial = 64;  // its turns, and behind them the word that it is over
constexpr std::uint32_t last_number = numbers_of_trial - 1;
static_assert(4 * most_places < last_number);
constexpr double clear_gain = 0.8;        // of the time by cached stores: between cores that share no cache it is 0.35 to 0.7, between others above 1
constexpr double longest_turn = 100'000;  // ns: if turns took longer, a rank was not on its processor
constexpr std::chrono::microseconds patience{2000};  // of one rank with the other; the whole trial takes a quarter of it
constexpr std::chrono::microseconds patience_for_partner{300};
constexpr std::chrono::milliseconds patience_for_reader{100};  // whom the system may have stopped amid a copy; it uses nothing of what it reads
/// Waits, without a system call, until a word satisfies a test. Returns false where it does not in time.
template <class Test>
bool await(const std::atomic<std::uint32_t>& word, Test&& test) {
  constexpr int looks_between = 64;  // of the clock
  const auto until = Clock::now() + patience;
  do {
    for (int i = 0; i < looks_between; ++i) {
      if (test(word.load(std::memory_order_acquire))) return true;
      base::relax();
    }
  } while (Clock::now() < until);
  return false;
}

/// As await, and lets other threads of this processor run meanwhile: the one that is waited for may be among them.
template <class Test>
bool await_yielding(const std::atomic<std::uint32_t>& word, std::chrono::microseconds at_most, Test&& test) {
  const auto until = Clock::now() + at_most;
  do {
    if (test(word.load(std::memory_order_acquire))) return true;
    std::this_thread::yield();
  } while (Clock::now() < until);
  return false;
}

}  // namespace

CopyTrial::CopyTrial(Segment& segment, std::uint32_t free_step, std::uint32_t number)
    : segment_(segment), free_step_(free_step), number_(number + 1), turn_(number * numbers_of_trial), end_(turn_ + last_number) {}

std::uint32_t CopyTrial::places() const {
  return static_cast<std::uint32_t>(std::min<std::size_t>(most_places, segment_.slot_bytes() / block_bytes));
}

std::byte* CopyTrial::place_of(std::uint32_t turn) const {
  return segment_.result(0, free_step_) + (turn % numbers_of_trial % places()) * block_bytes;
}

std::optional<double> CopyTrial::turn(Method method, const std::byte* block) {
  ++turn_;
  const auto began = Clock::now();
  if (method == Method::cached) kernels::copy(place_of(turn_), block, block_bytes);
  else kernels::copy_streaming(place_of(turn_), block, block_bytes);
  segment_.member(0).trial.store(turn_, std::memory_order_release);
  if (!await(segment_.member(1).trial, [&](std::uint32_t number) { return number == turn_; })) return std::nullopt;
  return std::chrono::duration<double, std::nano>(Clock::now() - began).count();
}

std::optional<double> CopyTrial::time_of(Method method) {
  const std::vector<std::byte> block(block_bytes);
  std::vector<double> times;
  for (std::uint32_t i = 0; i < 2 * places(); ++i) {
    const auto time = turn(method, block.data());
    if (!time) return std::nullopt;
    if (i >= places()) times.push_back(*time);
  }
  const auto median = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), median, times.end());
  return *median;
}

std::optional<bool> CopyTrial::found() {
  const auto accepted = [&](std::uint32_t number) { return number == number_; };
  if (!await_yielding(segment_.member(1).trial_number, patience_for_partner, accepted)) return std::nullopt;
  const auto cached = time_of(Method::cached);
  const auto streamed = cached ? time_of(Method::streamed) : std::nullopt;
  if (!streamed || *cached > longest_turn) return std::nullopt;
  return *streamed < clear_gain * *cached;
}

std::optional<bool> CopyTrial::lead() {
  const auto result = found();
  segment_.member(0).trial_found.store(result ? *result ? StagingWord::past_caches : StagingWord::cached : StagingWord::nothing);
  segment_.member(0).trial.store(end_);
  // A partner that was given up may still read the slot, which is written again from here on. (Each stores its word before it looks at the other's.)
  const auto& reads = segment_.member(1).trial_reads;
  if (reads.load() != 0) await_yielding(reads, patience_for_reader, [](std::uint32_t turn) { return turn == 0; });
  return result;
}

bool CopyTrial::copy_block(std::uint32_t turn, std::byte* to) {
  auto& reads = segment_.member(1).trial_reads;
  reads.store(turn);
  const bool goes_on = segment_.member(0).trial.load() == turn;
  if (goes_on) kernels::copy(to, place_of(turn), block_bytes);
  reads.store(0, std::memory_order_release);
  return goes_on;
}

std::optional<bool> CopyTrial::follow() {
  const auto& turn_of_0 = segment_.member(0).trial;
  segment_.member(1).trial_number.store(number_, std::memory_order_release);
  std::vector<std::byte> block(block_bytes);
  std::uint32_t last = turn_;
  const auto is_next = [&](std::uint32_t turn) { return turn > last && turn <= end_; };
  if (!await_yielding(turn_of_0, patience, is_next)) return std::nullopt;
  while (await(turn_of_0, is_next)) {
    last = turn_of_0.load(std::memory_order_acquire);
    if (last == end_) {
      const StagingWord result = segment_.member(0).trial_found.load();
      return result == StagingWord::nothing ? std::nullopt : std::optional<bool>(result == StagingWord::past_caches);
    }
    if (copy_block(last, block.data())) segment_.member(1).trial.store(last, std::memory_order_release);
  }
  return std::nullopt;
}

}  // namespace unisono::engines::shm
