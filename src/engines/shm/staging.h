#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/copy.h"

namespace unisono::engines::shm {

/// How this process writes what other ranks read out of shared memory. A cached store has to take the line from the core that has read it last, and
/// the reader takes it back; between cores that share no cache each of these transfers costs as much as a read of memory, or more. A store past the
/// caches takes no line. A trial finds which one is faster (CopyTrial).
class Staging {
 public:
  /// A smaller copy is over before the stores past the caches are.
  static constexpr std::size_t least_bytes = std::size_t{4} << 10;

  static void copy(void* to, const void* from, std::size_t bytes) noexcept {
    if (is_past_caches(bytes)) kernels::copy_streaming(to, from, bytes);
    else kernels::copy(to, from, bytes);
  }
  static bool is_past_caches(std::size_t bytes) noexcept { return bytes >= least_bytes && way.load(std::memory_order_relaxed) == Way::past_caches; }
  /// Returns true if stores past the caches are faster; nullopt before a trial has found that.
  static std::optional<bool> known() noexcept {
    const Way found = way.load(std::memory_order_relaxed);
    return found == Way::unknown ? std::nullopt : std::optional<bool>(found == Way::past_caches);
  }
  static void set_past_caches(bool found) noexcept { way.store(found ? Way::past_caches : Way::cached, std::memory_order_relaxed); }

 private:
  enum class Way : std::uint8_t { unknown, cached, past_caches };
  static inline std::atomic<Way> way{Way::unknown};
};

}  // namespace unisono::engines::shm
