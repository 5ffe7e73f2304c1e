#pragma once

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/thread.h"
#include "unisono/error.h"

namespace unisono::engines::mpi {

inline void say(const std::string& what) {
  const std::string line = "[unisono] " + what + "\n";
  [[maybe_unused]] const auto told = ::write(STDERR_FILENO, line.data(), line.size());
}

/// Writes the reason to standard error and ends the process, where MPI does not return from a call.
[[noreturn]] inline void end_process(const std::string& why, int code = 1) noexcept {
  say(why);
  ::_exit(code);
}

/// Limits a call of MPI, which takes no deadline: if the timer lives longer than the limit, the process ends. Other ranks may be in the call already,
/// so it is made without a limit where no thread can be started.
class ExitTimer {
 public:
  /// `code`: the exit code of the process then.
  ExitTimer(std::chrono::milliseconds limit, const std::string& doing, int code = 1) noexcept {
    try {
      thread_ = base::Thread("the watch over " + doing, [=, this] { watch(limit, doing, code); });
    } catch (const std::exception& error) {
      say(fmt::format("{} is waited for without a limit: {}", doing, error.what()));
    }
  }
  ~ExitTimer() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  ExitTimer(const ExitTimer&) = delete;
  ExitTimer& operator=(const ExitTimer&) = delete;

 private:
  void watch(std::chrono::milliseconds limit, const std::string& doing, int code) noexcept {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, limit, [this] { return over_; })) return;
    end_process(
        fmt::format("{} has not returned within {} s: other ranks have not called it, or have ended; MPI cannot give it up, so this process ends",
                    doing, std::chrono::duration_cast<std::chrono::seconds>(limit).count()),
        code);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  base::Thread thread_;
};

}  // namespace unisono::engines::mpi
