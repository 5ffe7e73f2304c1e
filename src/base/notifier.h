#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace unisono::base {

/// A fence between two sides of which one comes often and the other one seldom: the seldom one has the system carry out the fence of both.
///
///   often:   publishes, `light`, reads whether somebody sleeps          costs nothing where the process is registered, otherwise it is a fence
///   seldom:  says that it sleeps, `heavy`, looks for what is published  a call of the system: on two processors 0.6 to 0.9 µs
///
/// The system call membarrier(2) (MEMBARRIER_CMD_GLOBAL_EXPEDITED, Linux 4.16) makes each running thread of all registered processes carry out a
/// fence before it returns. So either the published value is visible after it, or the one that publishes reads after it, and sees that somebody
/// sleeps. tests/litmus/ring_sleep.litmus is its model.
class AsymmetricFence {
 public:
  /// Registers this process, if the system can. Without that each `light` is a fence.
  static void register_process() noexcept;
  static void light() noexcept {
#if !defined(__SANITIZE_THREAD__)  // the thread sanitizer does not support fences
    if (registered.load(std::memory_order_relaxed)) std::atomic_signal_fence(std::memory_order_seq_cst);
    else std::atomic_thread_fence(std::memory_order_seq_cst);  // litmus: light-fence
#endif
  }
  /// Returns false where the system has no such call for this process: then registered processes may publish unseen for a moment (see
  /// Notifier::settling_time).
  static bool heavy() noexcept;

 private:
  static std::atomic<bool> registered;
};

/// Lets the threads of a rank sleep until a peer wakes them: a futex word and a count of waiters, so that a notification costs one load while nobody
/// sleeps. It lives in memory that all ranks of the host share. No wake-up is lost:
///   a waiter counts itself, and after a fence (seq_cst) checks its condition once more, then sleeps on the word it read before;
///   a peer publishes (seq_cst), then reads the count (seq_cst).
/// tests/litmus/sleep.litmus is its model.
/// The order of the peer's two steps costs a fence, for which the processor first carries out all its stores: much for a peer that publishes a line
/// every 50 ns. `notify_often` leaves the fence to the waiter, who comes seldom: see AsymmetricFence.
class alignas(128) Notifier {
 public:
  std::uint32_t prepare_wait() noexcept {
    waiters_.fetch_add(1, std::memory_order_seq_cst);                  // litmus: sleep-count
    const std::uint32_t seen = word_.load(std::memory_order_seq_cst);  // litmus: sleep-word
#if !defined(__SANITIZE_THREAD__)                                      // the thread sanitizer does not support fences
    std::atomic_thread_fence(std::memory_order_seq_cst);               // litmus: sleep-fence
#endif
    return seen;
  }
  void wait(std::uint32_t seen, std::chrono::nanoseconds at_most) noexcept;
  bool has_waiters() const noexcept { return waiters_.load(std::memory_order_seq_cst) != 0; }
  void finish_wait() noexcept { waiters_.fetch_sub(1, std::memory_order_relaxed); }

  /// The processor on which this rank was when it last waited for longer than a moment; -1: it has not.
  int processor() const noexcept { return processor_.load(std::memory_order_relaxed) - 1; }
  void set_processor(int number) noexcept {
    if (processor() != number) processor_.store(number + 1, std::memory_order_relaxed);
  }

  void notify() noexcept {
    if (waiters_.load(std::memory_order_seq_cst) != 0) wake();  // litmus: sleep-look
  }
  /// As notify, after a release store, for waiters that call AsymmetricFence::heavy before they check their condition once more.
  void notify_often() noexcept {
    AsymmetricFence::light();
    if (waiters_.load(std::memory_order_relaxed) != 0) wake();  // litmus: often-look
  }
  /// A waiter whose system has no AsymmetricFence::heavy sleeps for so long before it checks its condition a second time: far longer than a processor
  /// keeps a store to itself. The stores of a thread that is interrupted are carried out before.
  static constexpr std::chrono::microseconds settling_time{50};

 private:
  void wake() noexcept;

  std::atomic<std::uint32_t> word_{0};
  std::atomic<std::uint32_t> waiters_{0};
  alignas(64) std::atomic<std::int32_t> processor_{0};  // and 1: all-zero memory is its initial state
};

/// The ranks of a host that wait for each other. The system may put two of them on one processor although there are others, as it does where another
/// program keeps those busy. A rank that spins then keeps away the one it waits for, until its time slice ends.
class Neighbours {
 public:
  /// `own` and `others` must outlive this.
  Neighbours(Notifier& own, std::vector<const Notifier*> others) : own_(own), others_(std::move(others)) {}

  /// Says where this rank is now. Returns true where another rank was on the same processor when it last waited.
  bool share_processor() noexcept;
  /// Returns what `share_processor` has returned last.
  bool shared_processor() const noexcept { return shared_.load(std::memory_order_relaxed); }

 private:
  Notifier& own_;
  std::vector<const Notifier*> others_;
  std::atomic<bool> shared_{false};
};

/// Tells the processor that this thread looks at a word again and again, so that the core's other thread gets more of it.
inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace unisono::base
