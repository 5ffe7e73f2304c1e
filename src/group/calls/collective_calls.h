#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>

#include "group/calls/group_calls.h"
#include "group/devices/device_group.h"
#include "unisono/detail/request.h"

namespace unisono::group {

/// The collectives of a group: checks a call, orders it behind what is under way, and carries it out or leaves it to the lane.
class CollectiveCalls {
 public:
  /// Both have to outlive it.
  CollectiveCalls(GroupCalls& calls, DeviceGroup& devices) : calls_(calls), devices_(devices) {}

  void run(const detail::Request& request, const CallOptions& options);
  /// Calls `issued` when the call has its place among the group's: from then on other threads may call.
  void run(const detail::Request& request, const CallOptions& options, const std::function<void()>& issued);
  Work start(const detail::Request& request, const CallOptions& options);
  /// Waits for all members. It is none of the group's calls: it has no number, and comes before the first of them.
  void assemble(std::chrono::milliseconds timeout);

 private:
  /// A call that has its place among the group's.
  struct Begun {
    Begun(CollectiveCalls& group, const detail::Request& request, const CallOptions& options);
    std::string_view operation;
    Entry entry;
    CollectiveCall call;
    bool on_device;
  };

  std::unique_ptr<Task> task_of(const CollectiveCall& call, const std::shared_ptr<detail::PrologueEpilogue>& edges, const detail::Request& request,
                                const CallOptions& options);
  /// Puts the call behind the collectives that are pending.
  StatePtr submit(Begun& begun, const detail::Request& request, const CallOptions& options);
  /// Returns the prologue and epilogue of a call. If this rank has no memory for them, the group is over.
  std::shared_ptr<detail::PrologueEpilogue> surroundings(CollectiveCall& call, const detail::Request& request);

  GroupCalls& calls_;
  DeviceGroup& devices_;
};

}  // namespace unisono::group
