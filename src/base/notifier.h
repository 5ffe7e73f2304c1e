#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace unisono::base {

/// The place where the threads of one rank sleep and its peers wake them: a futex word with a count of waiters beside it, so that a notification
/// costs one load while nobody sleeps. Lives in memory that all ranks of the host share. The protocol that loses no wake-up:
///   a waiter counts itself (seq_cst), looks once more at what it waits for, then sleeps on the word it read before;
///   a peer publishes (seq_cst), then looks at the count.
class alignas(128) Notifier {
 public:
  std::uint32_t prepare_wait() noexcept {
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    return word_.load(std::memory_order_seq_cst);
  }
  void wait(std::uint32_t seen, std::chrono::nanoseconds at_most) noexcept;
  bool has_waiters() const noexcept { return waiters_.load(std::memory_order_seq_cst) != 0; }
  void finish_wait() noexcept { waiters_.fetch_sub(1, std::memory_order_relaxed); }

  void notify() noexcept {
    if (waiters_.load(std::memory_order_seq_cst) != 0) wake();
  }

 private:
  void wake() noexcept;

  std::atomic<std::uint32_t> word_{0};
  std::atomic<std::uint32_t> waiters_{0};
};

}  // namespace unisono::base
