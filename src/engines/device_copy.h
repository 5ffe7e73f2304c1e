#pragma once

#include "base/deadline.h"
#include "unisono/device_runtime.h"
#include "unisono/tensor.h"

namespace unisono::engines {

/// Returns the runtime of devices of a type: the registered one, else that of its plug-in. Throws BackendUnavailable, which names what is missing.
DeviceRuntime& require_runtime(Device::Type type);

/// Puts a copy on the stream, between views of one dtype and number of elements, one of which is contiguous.
void copy(DeviceStream& stream, const TensorView& to, const TensorView& from);

/// Waits for the event; returns false where the deadline passes first.
bool wait_for(DeviceEvent& event, const base::Deadline& deadline);

/// Copies the elements, row by row, after all work on the caller's current stream. The host waits for the device.
void fetch(void* to, const TensorView& from);

}  // namespace unisono::engines
