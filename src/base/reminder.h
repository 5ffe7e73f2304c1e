#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "base/thread.h"

namespace unisono::base {

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
