#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <string>

#include "base/thread.h"

namespace unisono::group {

class Backoff;
class Progress;

/// The one thread that advances what is pending while nobody waits for any of it.
class ProgressThread {
 public:
  ProgressThread(Progress& progress, std::string rank_text) : progress_(progress), rank_text_(std::move(rank_text)) {}

  /// Starts the thread where it does not run yet; Error where there is none to be had. The caller holds the lock.
  void start();
  /// It was started. From any thread.
  bool is_running() const { return is_running_.load(std::memory_order_acquire); }
  /// There is something to do.
  void wake() { work_.notify_one(); }
  void stop();

 private:
  void loop();
  void turn(Backoff& backoff);
  void give_up(const std::exception_ptr& error) noexcept;

  Progress& progress_;
  std::string rank_text_;
  std::condition_variable work_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> is_running_{false};
  base::Thread thread_;
};

}  // namespace unisono::group
