#pragma once

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace unisono::mpi {

/// Says why, on standard error, and ends the process: all that is left to do where MPI does not return from a call.
[[noreturn]] inline void end_process(const std::string& why, int code = 1) noexcept {
  const std::string line = "[unisono] " + why + "\n";
  [[maybe_unused]] const auto told = ::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(code);
}

/// For its lifetime the calling thread is within MPI, which takes no deadline: if that lasts too long, the process ends.
class Overdue {
 public:
  /// `code`: with which the process ends then.
  Overdue(std::chrono::milliseconds limit, std::string doing, int code = 1)
      : thread_([this, limit, code, doing = std::move(doing)] { watch(limit, doing, code); }) {}
  ~Overdue() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Overdue(const Overdue&) = delete;
  Overdue& operator=(const Overdue&) = delete;

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
  std::thread thread_;
};

}  // namespace unisono::mpi
