#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "base/thread.h"

namespace unisono::base {

/// While it lives, says what is being waited for, so that nobody has to guess why nothing happens. In a thread of its own, as the one that waits is
/// busy with that. Once the destructor has returned, nothing is said any more.
class Reminder {
 public:
  struct Pace {
    std::chrono::milliseconds first, again;  ///< before the first word, and between two
  };
  /// `text` is asked anew each time; where it is empty, or throws, nothing is said. Both functions are called in the other thread. Where there is
  /// none to be had, nothing is said.
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
