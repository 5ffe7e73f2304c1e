#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "unisono/detail/standard.h"
#include "unisono/device_runtime.h"
#include "unisono/export.h"

namespace unisono {

/// The message that a receive has taken, or that a probe has found, as far as it is known before
/// its elements.
struct Arrival {
  /// The sender's rank in the group; -1 if there is no message yet.
  int source = -1;
  /// The tag of the message.
  int tag = 0;
  /// The number in which both sides compare dtype and label, beside the length.
  std::uint32_t kind = 0;
  /// The bytes of its elements.
  std::uint64_t bytes = 0;
};

/// An operation under way. A single thread at a time drives it, by calling `advance` again and
/// again.
///
/// ```cpp
/// while (!task.advance()) sleep_until_notified();    // the group does this, with deadlines
/// ```
class UNISONO_API Task {
 public:
  virtual ~Task();
  /// Goes as far as possible without waiting, and returns true once all is done. The task is over
  /// once it throws.
  virtual bool advance() = 0;
  /// Returns the ranks that the task waits for just now. Errors name them.
  virtual std::vector<int> waiting_for() const = 0;
  /// Tells whether any one of `waiting_for` is enough, as for a receive from any source.
  virtual bool any_will_do() const { return false; }
  /// Tells whether the group's notifier is notified when the task may go on. If not, the caller
  /// that waits looks again every 100 µs.
  virtual bool wakes_waiter() const { return true; }
  /// Sleeps until the task may go on, or for that time at most, if the task has an event of its own
  /// to sleep on: a connection, for example. Otherwise it returns false at once, and the caller
  /// sleeps until the group's notifier is notified. It may return early.
  virtual bool sleep(std::chrono::nanoseconds at_most) {
    static_cast<void>(at_most);
    return false;
  }
  /// Returns the message of a receive or a probe that is done.
  virtual Arrival arrival() const { return {}; }
  /// Returns the event that says when the device has finished an operation on its memory. Such an
  /// operation is done, for a task, once it is enqueued. Null if nothing is left to do.
  virtual std::shared_ptr<DeviceEvent> completion() const { return nullptr; }
  /// Copies what is left of a send, so that the caller's buffer is free. Returns false if that is
  /// not possible.
  virtual bool detach() { return false; }
  /// Takes a receive back. Returns false if it has been given a message, and for anything else; then
  /// nothing has happened. The task is over after true, and its memory is not written any more.
  virtual bool cancel() { return false; }
  /// Returns what errors and warnings say beside the ranks that are waited for, such as that a
  /// message with another tag has come; most often nothing.
  virtual std::string remark() const { return {}; }
  /// Tells whether the task is a collective that has not begun and that the engine may run together
  /// with others of its kind.
  virtual bool shares_step() const { return false; }
  /// Tells a task that shares steps, before it begins, which others of its engine wait after it, in
  /// their order. All of them share steps. Those that the engine runs with it are done the next time
  /// that they are advanced.
  virtual void take_along(std::span<Task* const> followers) { static_cast<void>(followers); }
};

/// Waits for a task on behalf of a blocking call: it spins, yields, sleeps, and looks for failures
/// and the deadline.
class UNISONO_API Waiter {
 public:
  virtual ~Waiter();
  /// Returns once the task is done. Throws what the task throws, and GroupFailure once the group is
  /// over.
  virtual void wait(Task& task) = 0;
  /// Returns the time that the call may take, counted from its beginning.
  virtual std::chrono::milliseconds timeout() const = 0;
};

}  // namespace unisono
