#include "engines/shm/copy_trial.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>
#include <vector>

#include "base/notifier.h"
#include "kernels/copy.h"

namespace unisono::engines::shm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t small_block = std::size_t{16} << 10, large_block = CopyTrial::most_bytes;
constexpr std::uint32_t repetitions = 5;
constexpr std::uint32_t turns_of_size = 2 * repetitions;  // cached, streamed, cached, …
constexpr std::uint32_t numbers_of_trial = 64;            // its turns, and behind them the word that it is over
constexpr std::uint32_t last_number = numbers_of_trial - 1;
static_assert(2 * turns_of_size < last_number);
constexpr double clear_gain = 0.35;       // of the time by cached stores: between cores that share a cache it is 0.5 or more, between others 0.2
constexpr double longest_turn = 100'000;  // ns: if each turn took longer, a rank was not on its processor
constexpr std::chrono::microseconds patience{2000};  // of one rank with the other; the whole trial takes a quarter of it
constexpr std::chrono::microseconds patience_for_partner{300};
constexpr std::chrono::milliseconds patience_for_reader{100};  // whom the system may have stopped amid a copy; it uses nothing of what it reads
constexpr std::uint32_t number_in_trial(std::uint32_t turn) { return turn % numbers_of_trial; }
constexpr std::size_t block_of(std::uint32_t turn) { return number_in_trial(turn) <= turns_of_size ? small_block : large_block; }

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

std::optional<double> CopyTrial::turn(const std::byte* block, std::size_t bytes) {
  const auto began = Clock::now();
  if (method_of(number_in_trial(turn_)) == Method::cached) kernels::copy(slot(), block, bytes);
  else kernels::copy_streaming(slot(), block, bytes);
  segment_.member(0).trial.store(turn_, std::memory_order_release);
  if (!await(segment_.member(1).trial, [&](std::uint32_t number) { return number == turn_; })) return std::nullopt;
  return std::chrono::duration<double, std::nano>(Clock::now() - began).count();
}

std::optional<CopyTrial::Times> CopyTrial::times_of(std::size_t bytes) {
  constexpr double none = std::numeric_limits<double>::max();
  Times best{none, none};
  const std::vector<std::byte> block(bytes);
  for (std::uint32_t i = 0; i < turns_of_size; ++i) {
    ++turn_;
    const auto time = turn(block.data(), bytes);
    if (!time) return std::nullopt;
    double& of_method = best[static_cast<std::size_t>(method_of(number_in_trial(turn_)))];
    of_method = std::min(of_method, *time);
  }
  return best;
}

std::optional<bool> CopyTrial::found() {
  const auto accepted = [&](std::uint32_t number) { return number == number_; };
  if (!await_yielding(segment_.member(1).trial_number, patience_for_partner, accepted)) return std::nullopt;
  const auto small = times_of(small_block);
  const auto large = small ? times_of(large_block) : std::nullopt;
  const auto cached = static_cast<std::size_t>(Method::cached), streamed = static_cast<std::size_t>(Method::streamed);
  if (!large || (*large)[cached] > longest_turn) return std::nullopt;
  return (*small)[streamed] < (*small)[cached] && (*large)[streamed] < clear_gain * (*large)[cached];
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

bool CopyTrial::copy_slot(std::uint32_t turn, std::byte* to) {
  auto& reads = segment_.member(1).trial_reads;
  reads.store(turn);
  const bool goes_on = segment_.member(0).trial.load() == turn;
  if (goes_on) kernels::copy(to, slot(), block_of(turn));
  reads.store(0, std::memory_order_release);
  return goes_on;
}

std::optional<bool> CopyTrial::follow() {
  const auto& turn_of_0 = segment_.member(0).trial;
  segment_.member(1).trial_number.store(number_, std::memory_order_release);
  std::vector<std::byte> block(most_bytes);
  std::uint32_t last = turn_;
  const auto is_next = [&](std::uint32_t turn) { return turn > last && turn <= end_; };
  if (!await_yielding(turn_of_0, patience, is_next)) return std::nullopt;
  while (await(turn_of_0, is_next)) {
    last = turn_of_0.load(std::memory_order_acquire);
    if (last == end_) {
      const StagingWord result = segment_.member(0).trial_found.load();
      return result == StagingWord::nothing ? std::nullopt : std::optional<bool>(result == StagingWord::past_caches);
    }
    if (copy_slot(last, block.data())) segment_.member(1).trial.store(last, std::memory_order_release);
  }
  return std::nullopt;
}

}  // namespace unisono::engines::shm
