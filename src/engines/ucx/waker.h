#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/thread.h"

namespace unisono::engines::ucx {

/// The part of a worker that is looked after while no rank calls it.
struct LookedAfter {
  /// Wakes the rank's threads, which sleep on a notifier that the other ranks of their host use as well. Null: nobody sleeps.
  std::function<void()> notify;
  /// Brings forward what was sent and has not left the process yet. Returns true where something may be left.
  std::function<bool()> tend;
  /// Tells whether something was sent since `tend` has returned false.
  std::function<bool()> has_sent;
};

/// A thread that does for a process's workers what nobody else does. UCX says by a descriptor that something has happened, and moves data only within
/// its calls. So the thread sleeps on the descriptors that were armed, and notifies; and it looks at workers every millisecond from a send until all
/// that was sent has left. At other times it sleeps.
class Waker {
 public:
  Waker() = default;
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  /// Looks after a worker, by its descriptor, until `remove`.
  void add(int descriptor, LookedAfter looked_after);
  /// Makes the next event of a descriptor count: `notify` is called once. Any thread may call.
  void arm(int descriptor) noexcept;
  /// Something was sent.
  void look_after_sends() noexcept {
    if (!is_tending_.load(std::memory_order_relaxed) && !is_tending_.exchange(true)) wake();
  }
  /// Returns once nothing of the worker is called any more.
  void remove(int descriptor) noexcept;

 private:
  void start();
  void wake() const noexcept;
  void loop();
  void tend();

  base::FileDescriptor events_;   // an epoll descriptor
  base::FileDescriptor wake_up_;  // an eventfd
  std::mutex mutex_;
  std::map<int, LookedAfter> workers_;
  std::atomic<bool> is_tending_{false};
  std::atomic<bool> stop_{false};
  base::Clock::time_point next_look_{};
  pid_t process_ = 0;  ///< that has the thread
  base::Thread thread_;
};

}  // namespace unisono::engines::ucx
