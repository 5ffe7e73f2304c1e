#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace unisono::engine {

/// Where the threads of one rank sleep and its peers wake them: a futex word with a count of sleepers beside it, so that ringing costs one load
/// while nobody sleeps. Lives in memory that all ranks of the host share. The protocol that loses no wake-up:
///   a sleeper counts itself (seq_cst), looks once more at what it waits for, then sleeps on the word it read before;
///   a peer publishes (seq_cst), then looks at the count.
class alignas(128) Bell {
 public:
  std::uint32_t listen() noexcept {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    return word_.load(std::memory_order_seq_cst);
  }
  void sleep(std::uint32_t heard, std::chrono::nanoseconds at_most) noexcept;
  bool has_sleepers() const noexcept { return sleepers_.load(std::memory_order_seq_cst) != 0; }
  void leave() noexcept { sleepers_.fetch_sub(1, std::memory_order_relaxed); }

  void ring() noexcept {
    if (sleepers_.load(std::memory_order_seq_cst) != 0) wake();
  }

 private:
  void wake() noexcept;

  std::atomic<std::uint32_t> word_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace unisono::engine
