#pragma once

#include <cstddef>

#include "unisono/detail/standard.h"
#include "unisono/export.h"
#include "unisono/tensor.h"

namespace unisono {

/// A point in what a device has to do: everything that was put on a stream before it.
class UNISONO_API DeviceEvent {
 public:
  virtual ~DeviceEvent();
  /// Whether the device is past it. Never blocks; throws what went wrong on the device.
  virtual bool reached() = 0;
  /// What is put on the stream from now on comes after it. The host does not wait.
  virtual void order(void* stream) = 0;
};

/// What is above the engines asks this of devices. It comes with the first engine that works on them.
class UNISONO_API DeviceRuntime {
 public:
  virtual ~DeviceRuntime();
  virtual Device::Type type() const noexcept = 0;
  /// Where the memory at this address lies. What the runtime does not know is the host's.
  virtual Device device_of(const void* address) = 0;
  /// The end of what is on the stream now. Null: the device's default stream.
  virtual std::shared_ptr<DeviceEvent> record(Device device, void* stream) = 0;
  struct Memory {
    std::size_t used = 0, total = 0;  ///< bytes, of all processes
  };
  virtual Memory memory(Device device) = 0;
};

/// The first one that is registered stays, as long as the process lives.
UNISONO_API void register_device_runtime(std::shared_ptr<DeviceRuntime> runtime);
/// Null where there was no such engine yet.
UNISONO_API DeviceRuntime* device_runtime() noexcept;

}  // namespace unisono
