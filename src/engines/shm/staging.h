#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/copy.h"

namespace unisono::engines::shm {

/// The word of rank 0 about how slots are written, with the first step of each call. trial: it finds that out in this step.
enum class StagingWord : std::uint8_t { nothing, trial, cached, past_caches };

/// How this process writes what other ranks read out of shared memory. A cached store has to take the line from the core that has read it last, and
/// the reader takes it back; between cores that share no cache each of these transfers costs as much as a read of memory, or more. A store past the
/// caches takes no line. A trial finds which cores these are (DistanceTrial).
class Staging {
 public:
  /// A smaller copy is over before the stores past the caches are.
  static constexpr std::size_t least_bytes = std::size_t{4} << 10;

  static void copy(void* to, const void* from, std::size_t bytes) noexcept {
    if (is_past_caches(bytes)) kernels::copy_streaming(to, from, bytes);
    else kernels::copy(to, from, bytes);
  }
  static bool is_past_caches(std::size_t bytes) noexcept { return bytes >= least_bytes && word() == StagingWord::past_caches; }
  /// Returns which stores are faster; nothing before a trial has found that.
  static StagingWord word() noexcept { return found.load(std::memory_order_relaxed); }
  static void set_past_caches(bool is_faster) noexcept { set(is_faster ? StagingWord::past_caches : StagingWord::cached); }
  static void set(StagingWord known) noexcept { found.store(known, std::memory_order_relaxed); }

 private:
  static inline std::atomic<StagingWord> found{StagingWord::nothing};
};

}  // namespace unisono::engines::shm
