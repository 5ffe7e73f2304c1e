#pragma once

#include <functional>
#include <memory>

#include "group/device_streams.h"
#include "unisono/engine.h"
#include "unisono/detail/request.h"

namespace unisono::group {

class Group;

inline bool is_on_device(const CollectiveCall& call) { return call.device != nullptr || is_on_device(call.in) || is_on_device(call.out); }

/// Asked when a call's turn comes: the end of the last collective that the group has left to the device. Null: there is none.
using LastOnDevice = std::function<std::shared_ptr<DeviceEvent>()>;

/// A call on memory of devices. The group's engine of devices gets what it offers; strided views are packed on their device, in whose order that is
/// done. Everything else goes through the host's memory, which is said once: by whichever way a call is carried out, all ranks take the same.
std::unique_ptr<Task> device_task(Group& group, const CollectiveCall& call, const detail::Request& request, const CallOptions& options,
                                  LastOnDevice last);
std::unique_ptr<Task> device_task(Group& group, const MessageCall& call, bool sends);

}  // namespace unisono::group
