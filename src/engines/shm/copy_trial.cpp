#include "engines/shm/copy_trial.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/relax.h"
#include "kernels/copy.h"

namespace unisono::engines::shm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t small_block = std::size_t{16} << 10, large_block = CopyTrial::most_bytes;
constexpr std::uint32_t repetitions = 5;
constexpr std::uint32_t turns_of_size = 2 * repetitions;  // by slot, by read, by slot, …
constexpr std::uint32_t numbers_of_trial = 64;            // its turns, and behind them the word that it is over
constexpr std::uint32_t last_number = numbers_of_trial - 1;
static_assert(2 * turns_of_size < last_number);
constexpr std::chrono::milliseconds patience{2};  // of one rank with the other; the whole trial takes a tenth of it

constexpr std::size_t block_of(std::uint32_t turn) { return turn % numbers_of_trial <= turns_of_size ? small_block : large_block; }
constexpr bool is_by_slot(std::uint32_t turn) { return turn % 2 == 1; }

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

std::atomic<std::size_t> known_size{0};  // 0: not known; of this process

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
    : segment_(segment), memory_(memory), free_step_(free_step), turn_(number * numbers_of_trial), end_(turn_ + last_number) {}

std::optional<std::size_t> CopyTrial::known() {
  const std::size_t size = known_size.load(std::memory_order_relaxed);
  return size != 0 ? std::optional(size) : std::nullopt;
}

std::optional<double> CopyTrial::turn(std::size_t bytes, bool by_slot) {
  memory_.touch(static_cast<std::byte>(++turn_));
  const auto began = Clock::now();
  if (by_slot) kernels::copy(slot(), memory_.data(), bytes);
  segment_.member(0).trial.store(turn_, std::memory_order_release);
  if (!await(segment_.member(1).trial, [&](std::uint32_t answer) { return answer == turn_; })) return std::nullopt;
  return std::chrono::duration<double, std::nano>(Clock::now() - began).count();
}

std::optional<CopyTrial::Times> CopyTrial::times_of(std::size_t bytes) {
  constexpr double none = std::numeric_limits<double>::max();
  Times best{none, none};
  for (std::uint32_t i = 0; i < turns_of_size; ++i) {
    const bool by_slot = i % 2 == 0;
    const auto time = turn(bytes, by_slot);
    if (!time) return std::nullopt;
    double& of_way = by_slot ? best.slot : best.read;
    of_way = std::min(of_way, *time);
  }
  return best;
}

std::optional<std::size_t> CopyTrial::lead(Repeat repeat) {
  std::optional<Times> small, large;
  if (repeat == Repeat::yes || !known()) {
    small = times_of(small_block);
    if (small) large = times_of(large_block);
  }
  segment_.member(0).trial.store(end_, std::memory_order_release);
  if (!small || !large) return known();
  const auto size = crossing(small_block, small->slot, small->read, large_block, large->slot, large->read);
  known_size.store(std::clamp(size.value_or(largest_size), smallest_size, largest_size), std::memory_order_relaxed);
  return known();
}

void CopyTrial::follow() {
  std::vector<std::byte> block(most_bytes);
  std::uint32_t last = turn_;
  const auto is_next = [&](std::uint32_t turn) { return turn > last && turn <= end_; };
  while (await(segment_.member(0).trial, is_next)) {
    last = segment_.member(0).trial.load(std::memory_order_acquire);
    if (last == end_) return;
    if (is_by_slot(last)) kernels::copy(block.data(), slot(), block_of(last));
    else if (memory_.read(0, block.data(), segment_.member(0).private_memory.address, block_of(last)) != 0) return;
    segment_.member(1).trial.store(last, std::memory_order_release);
  }
}

}  // namespace unisono::engines::shm
