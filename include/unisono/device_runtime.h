#pragma once

#include <cstddef>
#include <optional>

#include "unisono/detail/standard.h"
#include "unisono/export.h"
#include "unisono/tensor.h"

namespace unisono {

/// A point in what a device has to do: everything that was put on a stream before the event was
/// recorded.
class UNISONO_API DeviceEvent {
 public:
  virtual ~DeviceEvent();
  /// Tells whether the device is past it. Never blocks; throws what went wrong on the device.
  virtual bool reached() = 0;
  /// Lets everything that is put on `stream` from now on come after the event. The host does not
  /// wait.
  virtual void order(void* stream) = 0;
};

/// A stream of the library's own on a device. Work that is put on it is done in order, even after
/// the object is destroyed.
class UNISONO_API DeviceStream {
 public:
  virtual ~DeviceStream();
  /// Returns the stream as the device's runtime knows it: a cudaStream_t.
  virtual void* handle() const noexcept = 0;
  /// Allocates memory of the device for work that is put on the stream afterwards. It is given
  /// back, behind everything on the stream, when the stream is destroyed.
  virtual void* allocate(std::size_t bytes) = 0;
  /// `count` rows of `bytes` each, which begin `to_pitch` and `from_pitch` bytes apart. The pitches
  /// are at least `bytes` if there are several rows.
  struct Rows {
    void* to = nullptr;
    const void* from = nullptr;
    std::size_t bytes = 0, count = 1, to_pitch = 0, from_pitch = 0;
  };
  /// Copies rows between memory of devices and of the host, in either direction. The caller is held
  /// up for no longer than memory of the host takes to be copied.
  virtual void copy(const Rows& rows) = 0;
};

/// The interface through which the library uses a kind of device. It comes with the first engine
/// that works on such devices.
class UNISONO_API DeviceRuntime {
 public:
  virtual ~DeviceRuntime();
  /// Returns the kind of device.
  virtual Device::Type type() const noexcept = 0;
  /// Returns the place of the memory at this address. Memory that the runtime does not know is the
  /// host's.
  virtual Device device_of(const void* address) = 0;
  /// Returns an event at the end of what is on the stream now; null stands for the device's default
  /// stream.
  virtual std::shared_ptr<DeviceEvent> record(Device device, void* stream) = 0;
  /// Makes a stream on the device.
  virtual std::unique_ptr<DeviceStream> stream(Device device) = 0;
  /// Keeps memory of the host in its place, so that devices copy to it and from it at full speed and
  /// while the host does something else. It lasts as long as the result lives. Null: the runtime has
  /// no such thing, or no more of it.
  virtual std::shared_ptr<void> pin(void* memory, std::size_t bytes);
  /// Tells whether all that was put on the stream is done, if the runtime knows that without
  /// putting anything there. False: it may not be done. Throws what went wrong on the device.
  virtual bool is_idle(Device device, void* stream);
  /// Tells whether what is put on the stream is captured into a graph and not run, so that no call can
  /// wait for it.
  virtual bool is_captured(Device device, void* stream);
  /// The memory of a device.
  struct Memory {
    /// Bytes in use by all processes, and bytes in all.
    std::size_t used = 0, total = 0;
    /// Bytes in use by this process, if the driver tells.
    std::optional<std::size_t> own = {};
  };
  /// Returns the memory of the device.
  virtual Memory memory(Device device) = 0;
};

/// Registers a runtime. The first one stays for as long as the process lives.
UNISONO_API void register_device_runtime(std::shared_ptr<DeviceRuntime> runtime);

/// Returns the runtime; null if no engine has brought one yet.
UNISONO_API DeviceRuntime* device_runtime() noexcept;

}  // namespace unisono
