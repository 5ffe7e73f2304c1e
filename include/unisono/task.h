#pragma once

#include <cstdint>
#include <vector>

#include "unisono/detail/standard.h"
#include "unisono/device_runtime.h"
#include "unisono/export.h"

namespace unisono {

/// The message that a receive has taken, or that a probe has found, as far as it is known before its elements.
struct Arrival {
  int source = -1;  ///< rank in the group; -1: there is none yet
  int tag = 0;
  std::uint32_t kind = 0;  ///< what both sides compare beside the length: dtype and label
  std::uint64_t bytes = 0;
};

/// An operation under way. One thread at a time drives it.
class UNISONO_API Task {
 public:
  virtual ~Task();
  /// Goes as far as possible without waiting. Returns true when all is done. The task is over once it throws.
  virtual bool advance() = 0;
  /// The ranks that the task waits for just now.
  virtual std::vector<int> waiting_for() const = 0;
  /// True if any one of `waiting_for` is enough (a receive from any source).
  virtual bool any_will_do() const { return false; }
  /// Whether the group's notifier is notified when the task may go on. If not, the caller that waits looks again every 100 µs.
  virtual bool wakes_waiter() const { return true; }
  /// The message of a receive or a probe that is done.
  virtual Arrival arrival() const { return {}; }
  /// The event that says when the device has finished an operation on its memory that is done, which means that it is enqueued. Null:
  /// nothing is left to do.
  virtual std::shared_ptr<DeviceEvent> completion() const { return nullptr; }
  /// Copies what is left of a send, so that the caller's buffer is free. Returns false if that is not possible.
  virtual bool detach() { return false; }
};

/// Waits for a task on behalf of a blocking call: it spins, yields, sleeps, and looks for failures and the deadline.
class UNISONO_API Waiter {
 public:
  virtual ~Waiter();
  virtual void wait(Task& task) = 0;
  /// The time that the call may take, counted from its begin.
  virtual std::chrono::milliseconds timeout() const = 0;
};

}  // namespace unisono
