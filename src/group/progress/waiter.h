#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/deadline.h"
#include "recorder/recorder.h"
#include "unisono/engine.h"

namespace unisono::group {

class GroupErrors;

/// The time between two looks for failures and deadlines, and the longest sleep without one.
inline constexpr std::chrono::milliseconds look_period{20};
/// The longest sleep while something is waited for of which the notifier is not notified.
inline constexpr std::chrono::microseconds unnotified_period{100};

/// The facts about a call that are looked at while its task is waited for, by the caller or by the progress thread.
struct WaitCheck {
  std::string_view operation;
  std::uint64_t sequence;
  const base::Deadline& deadline;
  const recorder::Recorder::Call& record;
  bool& warned;  // the log says already that it takes long

  /// Records which ranks are waited for. Returns the failure of a peer that is gone, or of the deadline that has passed. Logs once, after 30 s, which
  /// ranks are waited for. Makes system calls.
  std::optional<Failure> look(GroupErrors& group, const Task& task) const;
};

/// Waits for the task of a blocking call. It notices peers that are gone and groups that are over, keeps the deadline, and logs which ranks it waits
/// for. It looks at the clock only once it has spun in vain.
class BlockingWaiter final : public Waiter {
 public:
  BlockingWaiter(GroupErrors& group, std::string_view operation, std::uint64_t sequence, std::chrono::milliseconds timeout,
                 const recorder::Recorder::Call& record)
      : group_(group), operation_(operation), sequence_(sequence), timeout_(timeout), record_(record) {}
  void wait(Task& task) override;
  std::chrono::milliseconds timeout() const override { return timeout_; }

 private:
  GroupErrors& group_;
  std::string_view operation_;
  std::uint64_t sequence_;
  std::chrono::milliseconds timeout_;
  const recorder::Recorder::Call& record_;
  std::optional<base::Deadline> deadline_;
};

}  // namespace unisono::group
