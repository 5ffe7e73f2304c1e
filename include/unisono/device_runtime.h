#pragma once

#include <cstddef>
#include <optional>

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

/// A stream of the library's own on a device. What is put on it is done in order, be it after the stream itself is gone.
class UNISONO_API DeviceStream {
 public:
  virtual ~DeviceStream();
  /// As the device's runtime knows it.
  virtual void* handle() const noexcept = 0;
  /// Memory of the device for what is put on the stream afterwards. Given back behind all that is on the stream when the stream is destroyed.
  virtual void* allocate(std::size_t bytes) = 0;
  /// `count` rows of `bytes` each, which begin `to_pitch` and `from_pitch` bytes apart: no less than `bytes`, where there are several.
  struct Rows {
    void* to = nullptr;
    const void* from = nullptr;
    std::size_t bytes = 0, count = 1, to_pitch = 0, from_pitch = 0;
  };
  /// Between memory of devices and of the host, in either direction. Holds up the caller at most for as long as memory of the host takes to be
  /// copied.
  virtual void copy(const Rows& rows) = 0;
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
  virtual std::unique_ptr<DeviceStream> stream(Device device) = 0;
  struct Memory {
    std::size_t used = 0, total = 0;      ///< bytes, of all processes
    std::optional<std::size_t> own = {};  ///< of this process, where the driver tells
  };
  virtual Memory memory(Device device) = 0;
};

/// The first one that is registered stays, as long as the process lives.
UNISONO_API void register_device_runtime(std::shared_ptr<DeviceRuntime> runtime);
/// Null where there was no such engine yet.
UNISONO_API DeviceRuntime* device_runtime() noexcept;

}  // namespace unisono
