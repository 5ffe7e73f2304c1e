#include "engines/shm/distance_trial.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

namespace unisono::engines::shm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t numbers_of_trial = 64;  // its turns, and behind them the word that it is over
constexpr std::uint32_t last_number = numbers_of_trial - 1;
constexpr int rounds = 5, turns_of_round = 12;
static_assert(rounds * turns_of_round < last_number);
// In ns, of a turn: two lines go from core to core, one after the other. It took 30 to 131 between cores that share a cache, and 502 between others
// (bench/results/shm.md).
constexpr double longest_of_near = 240;
constexpr std::chrono::microseconds patience{2000};  // of one rank with the other
constexpr std::chrono::microseconds patience_for_partner{300};

/// Waits, without a system call, until a word satisfies a test. Returns false where it does not in time.
template <class Test>
bool await(const std::atomic<std::uint32_t>& word, Test&& test) {
  constexpr int looks_between = 1000;  // of the clock
  const auto until = Clock::now() + patience;
  do {
    for (int i = 0; i < looks_between; ++i) {
      if (test(word.load(std::memory_order_acquire))) return true;
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

DistanceTrial::DistanceTrial(Segment& segment, std::uint32_t number)
    : segment_(segment), number_(number + 1), turn_(number * numbers_of_trial), end_(turn_ + last_number) {}

std::optional<bool> DistanceTrial::found() {
  const auto accepted = [&](std::uint32_t number) { return number == number_; };
  if (!await_yielding(segment_.member(1).trial_number, patience_for_partner, accepted)) return std::nullopt;
  // The fastest round counts: in the others one of the ranks may have been interrupted.
  double fastest = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    const auto began = Clock::now();
    for (int i = 0; i < turns_of_round; ++i) {
      segment_.member(0).trial.store(++turn_, std::memory_order_release);
      if (!await(segment_.member(1).trial, [&](std::uint32_t number) { return number == turn_; })) return std::nullopt;
    }
    fastest = std::min(fastest, std::chrono::duration<double, std::nano>(Clock::now() - began).count() / turns_of_round);
  }
  return fastest > longest_of_near;
}

std::optional<bool> DistanceTrial::lead() {
  const auto result = found();
  segment_.member(0).trial_found.store(result ? *result ? StagingWord::past_caches : StagingWord::cached : StagingWord::nothing);
  segment_.member(0).trial.store(end_);
  return result;
}

std::optional<bool> DistanceTrial::follow() {
  const auto& turn_of_0 = segment_.member(0).trial;
  segment_.member(1).trial_number.store(number_, std::memory_order_release);
  std::uint32_t last = turn_;
  const auto is_next = [&](std::uint32_t turn) { return turn > last && turn <= end_; };
  if (!await_yielding(turn_of_0, patience, is_next)) return std::nullopt;
  while (await(turn_of_0, is_next)) {
    last = turn_of_0.load(std::memory_order_acquire);
    if (last == end_) {
      const StagingWord result = segment_.member(0).trial_found.load();
      return result == StagingWord::nothing ? std::nullopt : std::optional<bool>(result == StagingWord::past_caches);
    }
    segment_.member(1).trial.store(last, std::memory_order_release);
  }
  return std::nullopt;
}

}  // namespace unisono::engines::shm
