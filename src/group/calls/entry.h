#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include "group/fork_guard.h"
#include "group/group_errors.h"
#include "unisono/error.h"

namespace unisono::group {

/// Lets one thread into a group that is open. Throws where another one is inside, where the group is closed, and in a child of fork.
class Entry {
 public:
  /// `busy`: of the group, whether a thread is in it.
  Entry(const GroupErrors& group, std::atomic<bool>& busy, std::string_view operation) : busy_(&busy) {
    if (in_forked_child()) {
      throw NotInitialized(
          "this process was forked from one that is initialized; it has no part in the group",
          {.operation = std::string(operation), .group = group.facts().name(), .hint = "start processes before initialize, or exec after fork"});
    }
    if (!group.is_open()) {
      throw NotInitialized("the group is closed: its context was finalized", {.operation = std::string(operation), .group = group.facts().name()});
    }
    if (busy.exchange(true, std::memory_order_acquire)) {
      throw InvalidArgument("concurrent use: another thread is in a call on this group",
                            {.operation = std::string(operation),
                             .group = group.facts().name(),
                             .rank = group.facts().rank(),
                             .hint = "use one group per thread; groups are independent of each other"});
    }
  }
  ~Entry() { leave(); }
  /// Lets other threads in from now on.
  void leave() {
    if (std::atomic<bool>* const busy = std::exchange(busy_, nullptr)) busy->store(false, std::memory_order_release);
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 private:
  std::atomic<bool>* busy_;
};

}  // namespace unisono::group
