#pragma once

#include <atomic>

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

}  // namespace unisono::base
