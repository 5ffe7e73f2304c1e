#pragma once

#include "unisono/detail/standard.h"
#include "unisono/export.h"

// Device buffers and CUDA streams. A call on device memory reads its input after everything that was on the caller's current stream before the call,
// and a blocking call returns when the operation is enqueued: what is put on the current stream afterwards comes after it. Of an asynchronous call
// Work::wait orders the current stream behind the operation in the same way and does not hold up the host; Work::is_completed and Work::wait_for ask
// whether the device is done. A stream is a cudaStream_t; it and the memory must live until then.

namespace unisono {

/// The calling thread's current stream. Null, which it is at first: the device's legacy default stream.
UNISONO_API void set_current_stream(void* stream) noexcept;
UNISONO_API void* current_stream() noexcept;

/// Another current stream for a scope.
class CurrentStream {
 public:
  explicit CurrentStream(void* stream) noexcept : before_(current_stream()) { set_current_stream(stream); }
  ~CurrentStream() { set_current_stream(before_); }
  CurrentStream(const CurrentStream&) = delete;
  CurrentStream& operator=(const CurrentStream&) = delete;

 private:
  void* before_;
};

/// The host waits until this process's device has done what is on the stream. Throws Timeout when it takes longer, what went wrong on the device,
/// and Unsupported where no backend of this process works on devices.
UNISONO_API void synchronize_stream(void* stream = current_stream(), std::chrono::milliseconds timeout = std::chrono::minutes(30));

}  // namespace unisono
