#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "unisono/engine.h"

namespace unisono::group {
class Lane;
class Progress;
}  // namespace unisono::group

namespace unisono::detail {

/// The state that a Work refers to.
struct WorkState {
  std::atomic<bool> done{false};
  std::atomic<bool> went_well{false};  // it is over, on a device as well, and there is no error: nothing of what follows changes any more but `then`
  std::mutex mutex;                    // of all that follows
  std::exception_ptr error;
  std::shared_ptr<DeviceEvent> completion;  // set before `done`: the operation is enqueued then, and this says when the device is through
  bool settled = false;                     // the device is through, or something went wrong
  bool seen = false;                        // somebody has asked for the error
  bool dropped = false;                     // nobody can ask any more
  std::uint64_t dropped_after = 0;          // the group's last call when it was dropped
  Arrival arrival;                          // of a receive
  std::vector<std::function<void()>> then;  // the callbacks that on_completion was given
  std::shared_ptr<group::Progress> progress;
  std::shared_ptr<group::Lane> lane;

  std::exception_ptr error_now() {
    const std::lock_guard lock(mutex);
    return error;
  }
  /// The operation is over, on a device as well. The caller holds the mutex.
  bool is_settled() const { return done.load(std::memory_order_acquire) && (!completion || settled); }
  /// Everything that is put on the caller's current stream from now on comes after the operation.
  void order_stream();
};

}  // namespace unisono::detail

namespace unisono::group {

/// Calls a callback that `on_completion` was given, and logs what it throws.
void call_back(const std::function<void()>& callback) noexcept;

}  // namespace unisono::group
