#pragma once

#include <memory>

#include "group/devices/device_streams.h"
#include "unisono/call.h"
#include "unisono/detail/request.h"
#include "unisono/task.h"

namespace unisono::group {

class DeviceGroup;

/// Returns true for a call that goes through the host piece by piece. All ranks get the same answer.
bool goes_in_pieces(const CollectiveCall& call, const detail::Request& request);

/// Makes the task of a call on memory of devices, contiguous there, that goes through the host's memory piece by piece: while the host's engine
/// carries out one piece, the devices copy the next ones to the host and the last ones back.
///
/// With two ranks and an all_reduce of four pieces (r: to the host, x: the ranks' exchange, w: back):
///
///     to the host   r0 r1 r2 r3
///     exchange         x0 x1 x2 x3
///     back                w0 w1 w2 w3
///
/// A call of several pieces begins with an agreement on the whole, since the first pieces of different calls may be alike. The call is done when the
/// result is on the device. `last`: see device_task.
std::unique_ptr<Task> pieces_through_host(DeviceGroup& group, const CollectiveCall& call, LastOnDevice last);

}  // namespace unisono::group
