#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "unisono/export.h"

namespace unisono::base {

/// A thread of the library. It takes no signals, unless it runs a program's own code, which may wait for them or start processes. An exception of its
/// function is logged and ends that thread alone: a function that others depend on catches exceptions itself and tells the others. Exported for the
/// plug-ins.
class UNISONO_API Thread {
 public:
  Thread() = default;
  enum class Signals { none, as_starter };
  /// Starts a thread. `name`: as messages call it, "the store server". Throws Error where the system cannot start one.
  Thread(std::string name, std::function<void()> body, Signals signals = Signals::none);
  Thread(Thread&&) = default;
  /// Joins the thread that this object had.
  Thread& operator=(Thread&& other);  // NOLINT(performance-noexcept-move-constructor): it joins the thread that it had
  ~Thread() { join(); }

  /// Returns true where a thread was started and not joined yet.
  bool joinable() const { return thread_.joinable(); }
  /// Does nothing where there is no thread. A child of fork has the object without the thread: there it lets go.
  void join();
  /// Gives up joining: the thread may use only what lives until the process ends.
  void detach() { thread_.detach(); }

 private:
  std::thread thread_;
  pid_t process_ = 0;
};

/// Says now and then, during its lifetime, what is being waited for. It has a thread of its own, since the caller is blocked. Nothing is said any
/// more once the destructor has returned.
class Reminder {
 public:
  struct Pace {
    std::chrono::milliseconds first, again;  ///< before the first text, and between two
  };
  /// Asks `text` for a new text each time; nothing is said where it is empty or `text` throws. Both functions are called in the other thread. Nothing
  /// is said where no thread can be started.
  Reminder(Pace pace, std::function<std::string()> text, std::function<void(const std::string&)> say);
  ~Reminder();
  Reminder(const Reminder&) = delete;
  Reminder& operator=(const Reminder&) = delete;

 private:
  void remind() noexcept;

  const Pace pace_;
  const std::function<std::string()> text_;
  const std::function<void(const std::string&)> say_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Thread thread_;
};

}  // namespace unisono::base
