#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "group/progress/work_state.h"
#include "recorder/recorder.h"
#include "unisono/task.h"

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

class GroupErrors;

/// An asynchronous operation on its way.
struct Pending {
  StatePtr state;
  std::unique_ptr<Task> task;
  std::shared_ptr<GroupErrors> group;  // stays alive until the operation is over
  std::string operation;
  std::uint64_t sequence = 0;
  std::source_location where = {};  // of the call, for its error
  recorder::Recorder::Call record = {};
  base::Deadline deadline;
  bool collective = false;
  bool begun = false;        // a collective that is first in its queue: the peers may have seen something of it
  std::size_t buffered = 0;  // that a send takes that was detached from its caller
  bool warned = false;
  bool is_urgent = true;
};

/// The remains of operations that are over, to be let go of when the lock is released: a group may end with its last operation, and callbacks may
/// call anything.
struct Remains {
  std::shared_ptr<GroupErrors> group;  // the first one; most often it is the only one
  std::vector<std::shared_ptr<GroupErrors>> groups;
  std::vector<std::function<void()>> callbacks;
  bool any_done = false;  // a thread may wait for one of the operations

  void keep(std::shared_ptr<GroupErrors> last) {
    if (!group || group == last) group = std::move(last);
    else groups.push_back(std::move(last));
  }
};

/// An operation under way, or one that is ended before it is over.
struct Ended {
  GroupErrors& group;
  std::string_view operation;
  std::uint64_t sequence;
  const Task& task;
  std::source_location where = {};  // of the call
};
using ErrorOf = std::function<std::exception_ptr(const Ended&)>;

/// Settles the state of an operation that is over, with its callbacks. `deferred`: takes the error of one whose Work was dropped.
void settle(detail::WorkState& state, const std::exception_ptr& error, const Arrival& arrival, bool is_collective, DeferredError& deferred,
            Remains& remains);

}  // namespace unisono::group
