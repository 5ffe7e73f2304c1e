#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <utility>

namespace unisono::group {

/// The error of an operation whose Work was dropped, for a later call to throw. From any thread.
///
/// It belongs to the first call after the drop. For a collective this holds even if that call is queued already: whether a rank learns of the error
/// early or late, the same call fails on all ranks, and none of them carries it out.
class DeferredError {
 public:
  /// The error of an operation that no call came after.
  static constexpr std::uint64_t no_queued_call = ~std::uint64_t{0};

  void set(std::exception_ptr error, std::uint64_t after) {
    const std::lock_guard lock(mutex_);
    if (!error_) {
      error_ = std::move(error);
      after_ = after;
    }
    is_set_.store(true, std::memory_order_release);
  }
  bool is_set() const { return is_set_.load(std::memory_order_acquire); }
  /// Null: there is none.
  std::exception_ptr take() {
    const std::lock_guard lock(mutex_);
    return take_locked();
  }
  /// Null as well where the error does not belong to that call.
  std::exception_ptr take_for(std::uint64_t queued_call) {
    if (!is_set()) return nullptr;
    const std::lock_guard lock(mutex_);
    return queued_call > after_ ? take_locked() : nullptr;
  }

 private:
  std::exception_ptr take_locked() {
    is_set_.store(false, std::memory_order_relaxed);
    return std::exchange(error_, nullptr);
  }

  std::mutex mutex_;
  std::exception_ptr error_;
  std::uint64_t after_ = 0;
  std::atomic<bool> is_set_{false};
};

}  // namespace unisono::group
