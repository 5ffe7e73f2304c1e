#pragma once

#include "base/deadline.h"
#include "unisono/device_runtime.h"
#include "unisono/tensor.h"

namespace unisono::engines {

/// The runtime of devices of a type: the one that is registered, else that of the plug-in which knows them. BackendUnavailable says what is missing.
DeviceRuntime& require_runtime(Device::Type type);

/// Puts a copy on the stream, between views of one dtype and number of elements, of which one is contiguous.
void copy(DeviceStream& stream, const TensorView& to, const TensorView& from);

/// The host waits for it; false where the deadline passes first.
bool wait_for(DeviceEvent& event, const base::Deadline& deadline);

/// The elements, row by row, after everything that is on the caller's current stream. The host waits for the device.
void fetch(void* to, const TensorView& from);

}  // namespace unisono::engines
