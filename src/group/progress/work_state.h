#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "unisono/engine.h"
#include "unisono/work.h"

namespace unisono::group {
class Lane;
class Progress;
}  // namespace unisono::group

namespace unisono::detail {

/// The state that a Work refers to. Its copies, and the holders inside the library, are counted in one word together with the end of the operation,
/// so that a short operation costs few atomic steps.
struct WorkState {
  static constexpr std::uint64_t holder = 1;
  static constexpr std::uint64_t done_mark = std::uint64_t{1} << 30;      // it is over; on a device it may go on
  static constexpr std::uint64_t listened_mark = std::uint64_t{1} << 31;  // `then` may hold something
  static constexpr std::uint64_t work = std::uint64_t{1} << 32;
  static constexpr bool is_unheld(std::uint64_t word) { return (word & ~(done_mark | listened_mark)) == 0; }

  std::atomic<std::uint64_t> word{0};
  std::atomic<bool> went_well{false};  // it is over, on a device as well, and there is no error: nothing of what follows changes any more but `then`
  std::mutex mutex;                    // of all that follows
  std::exception_ptr error;
  std::shared_ptr<DeviceEvent> completion;  // set before the end: the operation is enqueued then, and this says when the device is through
  bool settled = false;                     // the device is through, or something went wrong
  bool seen = false;                        // somebody has asked for the error
  bool dropped = false;                     // nobody can ask any more
  std::uint64_t dropped_after = 0;          // the group's last call when it was dropped
  Arrival arrival;                          // of a receive
  std::vector<std::function<void()>> then;  // the callbacks that on_completion was given
  std::shared_ptr<group::Progress> progress;
  std::shared_ptr<group::Lane> lane;

  WorkState() = default;
  virtual ~WorkState() = default;
  WorkState(const WorkState&) = delete;
  WorkState& operator=(const WorkState&) = delete;

  void hold() noexcept { word.fetch_add(holder, std::memory_order_relaxed); }
  void let_go() noexcept {
    if (is_unheld(word.fetch_sub(holder, std::memory_order_acq_rel) - holder)) dispose();
  }
  /// The last Work, or the last holder, is gone.
  virtual void dispose() noexcept { delete this; }

  bool is_done() const noexcept { return (word.load(std::memory_order_acquire) & done_mark) != 0; }
  void set_done() noexcept { word.fetch_or(done_mark, std::memory_order_seq_cst); }
  /// Ends an operation on the host's memory that went well, for a holder that lets go of it. Returns false, and has done nothing, where there are
  /// callbacks.
  bool end_well(const Arrival& of_receive) noexcept;

  std::exception_ptr error_now() {
    const std::lock_guard lock(mutex);
    return error;
  }
  /// The operation is over, on a device as well. The caller holds the mutex.
  bool is_settled() const { return is_done() && (!completion || settled); }
  /// Everything that is put on the caller's current stream from now on comes after the operation.
  void order_stream();
};

/// Looks into a Work, for who waits for several operations in a way of his own.
struct WorkAccess {
  /// Returns the state; null for a Work that is done.
  static WorkState* state_of(const Work& work) noexcept { return work.state_; }
};

}  // namespace unisono::detail

namespace unisono::group {

/// A holder of a state.
class StatePtr {
 public:
  StatePtr() = default;
  StatePtr(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): as a std::shared_ptr
  /// Takes over one that is counted already.
  explicit StatePtr(detail::WorkState* state) noexcept : state_(state) {}
  StatePtr(const StatePtr& other) noexcept : state_(other.state_) {
    if (state_ != nullptr) state_->hold();
  }
  StatePtr(StatePtr&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  StatePtr& operator=(StatePtr other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~StatePtr() {
    if (state_ != nullptr) state_->let_go();
  }
  detail::WorkState* operator->() const noexcept { return state_; }
  detail::WorkState& operator*() const noexcept { return *state_; }
  explicit operator bool() const noexcept { return state_ != nullptr; }
  /// Makes a Work of the operation.
  Work work() const noexcept;

 private:
  detail::WorkState* state_ = nullptr;
};

/// Calls a callback that `on_completion` was given, and logs what it throws.
void call_back(const std::function<void()>& callback) noexcept;

}  // namespace unisono::group
