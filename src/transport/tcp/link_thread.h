#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/thread.h"

namespace unisono::transport {

/// Decides which thread moves the bytes of a link, and has a thread for the time in which no caller does. While callers poll, or one sleeps here,
/// that thread leaves the sockets alone and only wakes to see whether they still do. When no caller has polled for a moment, or one sleeps elsewhere,
/// it waits for the sockets itself.
class LinkThread {
 public:
  using Time = base::Clock::time_point;
  struct Owner {
    std::string name{};
    std::function<bool()> has_waiter{};      ///< returns true while a thread sleeps elsewhere; may be empty
    std::function<Time()> step{};            ///< moves what can be moved. Returns the time of the next step without an event
    std::function<void()> before_waiting{};  ///< called before the thread waits for the sockets
    std::function<void()> failed{};          ///< called in the handler of an exception that ends the thread
  };

  /// `callers_poll` is true while the thread leaves the sockets to callers.
  LinkThread(int epoll, std::atomic<bool>& callers_poll, Owner owner);
  ~LinkThread() { stop(); }
  LinkThread(const LinkThread&) = delete;
  LinkThread& operator=(const LinkThread&) = delete;

  /// The descriptors that wake those who wait for the sockets.
  int notifier() const { return notifier_.get(); }
  int wakeup() const { return wakeup_.get(); }
  void start();
  void stop() noexcept;
  /// Returns true in the process that has made the thread: a child of fork has the object but not the thread.
  bool is_of_this_process() const;
  /// Called when a caller polls.
  void count_poll();
  /// Called by a caller that waits: sleeps until an event, `wake_sleeper`, or for that time. `prepare` is called before, and then `is_over`. Returns
  /// false at once where another thread sleeps here.
  bool sleep(const std::function<void()>& prepare, const std::function<bool()>& is_over, std::chrono::nanoseconds at_most);
  void wake_sleeper();

 private:
  void run();
  void work();
  void leave_to_callers(Time until);
  void wait_for_sockets(Time until);
  bool has_waiter() const { return owner_.has_waiter && owner_.has_waiter(); }

  const int epoll_;
  std::atomic<bool>& callers_poll_;
  const Owner owner_;
  const pid_t pid_;
  base::FileDescriptor notifier_;  ///< wakes the thread
  base::FileDescriptor wakeup_;    ///< wakes the caller that sleeps here
  std::atomic<std::uint64_t> polls_{0};
  std::mutex sleeper_;  ///< held by the caller that sleeps here
  std::atomic<bool> sleeps_here_{false};
  std::atomic<bool> stop_{false};
  base::Thread thread_;
};

}  // namespace unisono::transport
