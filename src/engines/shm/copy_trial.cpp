#include "engines/shm/copy_trial.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include "base/notifier.h"
#include "kernels/copy.h"

namespace unisono::engines::shm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t small_block = std::size_t{16} << 10, large_block = CopyTrial::most_bytes;
constexpr std::uint32_t repetitions = 5;
constexpr std::uint32_t turns_of_size = 3 * repetitions;  // cached, streamed, read, cached, …
constexpr std::uint32_t numbers_of_trial = 64;            // its turns, and behind them the word that it is over
constexpr std::uint32_t last_number = numbers_of_trial - 1;
static_assert(2 * turns_of_size < last_number);
constexpr std::uint32_t refused = 1U << 31;  // an answer: the memory cannot be read
constexpr double clear_gain = 0.6;           // of the time by cached stores: between cores that share a cache it is 0.8 or more, between others 0.25
// The trial hands over what has just been written. A block that has stayed as it was since the last call is read out of the reader's own caches, a
// slot never is; so reading counts as so much of its time.
constexpr double weight_of_reading = 0.8;
constexpr std::chrono::microseconds patience{2000};  // of one rank with the other; the whole trial takes a quarter of it
constexpr std::chrono::microseconds patience_for_partner{300};
constexpr std::chrono::milliseconds patience_for_reader{100};  // whom the system may have stopped amid a copy; it uses nothing of what it reads
constexpr std::uint32_t rank_bits = 10;                        // of a rank in a word
constexpr std::uint32_t rank_mask = (1U << rank_bits) - 1;
static_assert(Segment::most_ranks <= 1 << rank_bits);

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

// The result in this process; the other two are written before the first.
std::atomic<bool> is_known{false}, known_past_caches{false};
std::atomic<std::uint32_t> known_from{0};

}  // namespace

std::optional<std::size_t> crossing(std::size_t small_bytes, double small_first, double small_second, std::size_t large_bytes, double large_first,
                                    double large_second) {
  const auto width = static_cast<double>(large_bytes - small_bytes);
  const double small_gain = small_first - small_second, large_gain = large_first - large_second;
  if (large_gain <= small_gain) return std::nullopt;  // the second one gains nothing with the size
  const double gain_per_byte = (large_gain - small_gain) / width;
  const double at = static_cast<double>(small_bytes) - small_gain / gain_per_byte;
  return at <= 0 ? 0 : static_cast<std::size_t>(at);
}

CopyTrial::CopyTrial(Segment& segment, PrivateMemory& memory, std::uint32_t free_step, std::uint32_t number)
    : segment_(segment),
      memory_(memory),
      free_step_(free_step),
      invitation_((number + 1) << rank_bits),
      turn_(number * numbers_of_trial % refused),
      end_(turn_ + last_number) {}

std::optional<CopyTrial::Found> CopyTrial::known() {
  if (!is_known.load(std::memory_order_acquire)) return std::nullopt;
  return Found{.past_caches = known_past_caches.load(std::memory_order_relaxed), .from = known_from.load(std::memory_order_relaxed)};
}

std::optional<double> CopyTrial::turn(std::size_t bytes) {
  const Method method = method_of(number_in_trial(turn_));
  memory_.touch(static_cast<std::byte>(turn_));
  const auto began = Clock::now();
  if (method == Method::cached) kernels::copy(slot(), memory_.data(), bytes);
  if (method == Method::streamed) kernels::copy_streaming(slot(), memory_.data(), bytes);
  segment_.member(0).trial.store(turn_, std::memory_order_release);
  const auto& answer = segment_.member(partner_).trial;
  if (!await(answer, [&](std::uint32_t number) { return (number & ~refused) == turn_; })) return std::nullopt;
  if ((answer.load(std::memory_order_acquire) & refused) != 0) reads_ = false;
  return std::chrono::duration<double, std::nano>(Clock::now() - began).count();
}

std::optional<CopyTrial::Times> CopyTrial::times_of(std::size_t bytes) {
  constexpr double none = std::numeric_limits<double>::max();
  Times best{none, none, none};
  for (std::uint32_t i = 0; i < turns_of_size; ++i) {
    const Method method = method_of(number_in_trial(++turn_));
    if (method == Method::read && !reads_) continue;
    const auto time = turn(bytes);
    if (!time) return std::nullopt;
    double& of_method = best[static_cast<std::size_t>(method)];
    of_method = std::min(of_method, *time);
  }
  return best;
}

CopyTrial::Found CopyTrial::found_of(const Times& small, const Times& large, bool reads) {
  const auto cached = static_cast<std::size_t>(Method::cached), streamed = static_cast<std::size_t>(Method::streamed),
             read = static_cast<std::size_t>(Method::read);
  Found found{.past_caches = small[streamed] < small[cached] && large[streamed] < clear_gain * large[cached]};
  if (!reads) return found;
  const std::size_t slot = found.past_caches ? streamed : cached;
  const auto size = crossing(small_block, small[slot], weight_of_reading * small[read], large_block, large[slot], weight_of_reading * large[read]);
  found.from = static_cast<std::uint32_t>(std::clamp<std::size_t>(size.value_or(largest_size), smallest_size, largest_size));
  return found;
}

std::optional<int> CopyTrial::partner() const {
  const auto& word = segment_.member(0).trial_partner;
  const auto accepted = [&](std::uint32_t value) { return (value & ~rank_mask) == invitation_; };
  if (!await_yielding(word, patience_for_partner, accepted)) return std::nullopt;
  return static_cast<int>(word.load(std::memory_order_acquire) & rank_mask);
}

std::optional<CopyTrial::Found> CopyTrial::lead() {
  std::optional<Times> small, large;
  if (const auto rank = partner()) {
    partner_ = *rank;
    small = times_of(small_block);
    if (small) large = times_of(large_block);
  }
  segment_.member(0).trial.store(end_);
  // A partner that was given up may still read the slot, which is written again from here on. (Each stores its word before it looks at the other's.)
  const auto& reads = segment_.member(partner_).trial_reads;
  if (partner_ != 0 && reads.load() != 0) await_yielding(reads, patience_for_reader, [](std::uint32_t turn) { return turn == 0; });
  if (!small || !large) return std::nullopt;
  const Found found = found_of(*small, *large, reads_);
  known_past_caches.store(found.past_caches, std::memory_order_relaxed);
  known_from.store(found.from, std::memory_order_relaxed);
  is_known.store(true, std::memory_order_release);
  return found;
}

bool CopyTrial::copy_slot(int rank, std::uint32_t turn, std::byte* to) {
  auto& reads = segment_.member(rank).trial_reads;
  reads.store(turn);
  const bool goes_on = segment_.member(0).trial.load() == turn;
  if (goes_on) kernels::copy(to, slot(), block_of(turn));
  reads.store(0, std::memory_order_release);
  return goes_on;
}

void CopyTrial::follow(int rank) {
  auto& word = segment_.member(0).trial_partner;
  std::uint32_t before = word.load(std::memory_order_relaxed);
  const bool is_newest = static_cast<std::int32_t>(invitation_ - (before & ~rank_mask)) > 0;
  if (!is_newest || !word.compare_exchange_strong(before, invitation_ | static_cast<std::uint32_t>(rank), std::memory_order_acq_rel)) return;
  std::vector<std::byte> block(most_bytes);
  std::uint32_t last = turn_;
  const auto is_next = [&](std::uint32_t turn) { return turn > last && turn <= end_; };
  if (!await_yielding(segment_.member(0).trial, patience, is_next)) return;
  while (await(segment_.member(0).trial, is_next)) {
    last = segment_.member(0).trial.load(std::memory_order_acquire);
    if (last == end_) return;
    std::uint32_t answer = last;
    if (method_of(number_in_trial(last)) != Method::read) {
      if (!copy_slot(rank, last, block.data())) continue;
    } else if (read_memory(segment_, 0, block.data(), segment_.member(0).private_memory.address, block_of(last)) != 0) {
      answer |= refused;
    }
    segment_.member(rank).trial.store(answer, std::memory_order_release);
  }
}

}  // namespace unisono::engines::shm
