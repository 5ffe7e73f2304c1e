#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "base/deadline.h"
#include "recorder/recorder.h"
#include "unisono/engine.h"

namespace unisono::group {

class GroupErrors;

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
