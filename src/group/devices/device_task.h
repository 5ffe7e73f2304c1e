#pragma once

#include <functional>
#include <memory>

#include "engines/message.h"
#include "group/devices/device_streams.h"
#include "unisono/engine.h"
#include "unisono/detail/request.h"

namespace unisono::group {

class DeviceGroup;

/// Makes the task of a call on memory of devices. The group's engine of devices gets what it offers; strided views are packed on their device, in the
/// order of its work. Everything else goes through the host's memory, which is logged once. All ranks take the same way.
std::unique_ptr<Task> device_task(DeviceGroup& group, const CollectiveCall& call, const detail::Request& request, const CallOptions& options,
                                  LastOnDevice last);
std::unique_ptr<Task> device_task(DeviceGroup& group, const engines::MessageCall& call, bool sends);

}  // namespace unisono::group
