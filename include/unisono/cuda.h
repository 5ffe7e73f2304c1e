#pragma once

#include "unisono/detail/standard.h"
#include "unisono/export.h"

// CUDA streams, and the order of calls on device memory.
//
// A call on device memory reads its input after everything that was put on the caller's current
// stream before the call. A blocking call returns when the operation is enqueued; what is put on
// the current stream afterwards comes after it. After an asynchronous call, Work::wait orders the
// current stream behind the operation in the same way and does not hold up the host;
// Work::is_completed and Work::wait_for ask whether the device is done. torch.distributed orders
// its calls in this way, too.
//
// ```cpp
// const CurrentStream current(stream);
// all_reduce(std::span(on_device, n));
// use_result<<<blocks, threads, 0, stream>>>(on_device);
// ```
//
// A stream is a cudaStream_t. The stream and the memory live until the device is done.

namespace unisono {

/// Sets the calling thread's current stream. Null, which it is at first, is the device's legacy
/// default stream.
UNISONO_API void set_current_stream(void* stream) noexcept;

/// Returns the calling thread's current stream.
UNISONO_API void* current_stream() noexcept;

/// Makes another stream the current one for a scope.
class CurrentStream {
 public:
  explicit CurrentStream(void* stream) noexcept : before_(current_stream()) { set_current_stream(stream); }
  ~CurrentStream() { set_current_stream(before_); }
  CurrentStream(const CurrentStream&) = delete;
  CurrentStream& operator=(const CurrentStream&) = delete;

 private:
  void* before_;
};

/// Waits on the host until this process's device has done everything that is on the stream.
///
/// @throws Timeout when it takes longer
/// @throws Unsupported if no backend of this process works on devices
/// @throws Error for what went wrong on the device
UNISONO_API void synchronize_stream(void* stream = current_stream(), std::chrono::milliseconds timeout = std::chrono::minutes(30));

}  // namespace unisono
