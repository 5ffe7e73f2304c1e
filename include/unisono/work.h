#pragma once

#include <cstddef>
#include <exception>
#include <span>

#include "unisono/detail/standard.h"
#include "unisono/export.h"

namespace unisono {

namespace detail {
struct WorkState;
}

/// An operation that may still be going on. Its buffers belong to the library until it is done. A Work that is dropped still completes; its
/// error, if nobody has asked for it, is thrown by the group's next call. Copies share the operation. One on device memory is handed to the device
/// first and done later: see unisono/cuda.h.
class [[nodiscard]] UNISONO_API Work {
 public:
  Work() = default;  ///< an operation that is done
  /// Returns when it is done; throws its error. The caller drives the operation while it waits. Of one on device memory it returns when the device
  /// has it: what is put on the caller's current stream from then on comes after it.
  void wait();
  /// False if it was not done in time, by the device as well; the operation goes on. Throws its error.
  bool wait_for(std::chrono::milliseconds timeout);
  /// Done, well or not. Never blocks.
  bool is_completed() const;
  /// Null while it goes on and if it went well.
  std::exception_ptr exception() const;
  /// Calls it once, when `is_completed` has become true: at once in this thread if it has, else in whichever thread brings it about, be it within a
  /// call of the same group, which it must not call therefore. No lock of ours is held, so that it may call other groups. While it runs, nothing else
  /// of this process's asynchronous operations may go on, so it should be short. It must not throw.
  void on_completion(std::function<void()> callback);
  /// Of a receive that is done: the sender's rank in the group. -1 for anything else.
  int source_rank() const;
  /// The tag of the message that a receive has taken. 0 for anything else.
  int tag() const;

  explicit Work(std::shared_ptr<detail::WorkState> state);

 private:
  friend std::size_t wait_any(std::span<Work> works);
  void drive_until(const std::function<bool()>& done);

  struct Handle;
  std::shared_ptr<Handle> handle_;
};

/// Waits for all, then throws the first error among them, if any.
UNISONO_API void wait_all(std::span<Work> works);
/// Waits until one is done and returns its index; throws that one's error. InvalidArgument if there is none.
UNISONO_API std::size_t wait_any(std::span<Work> works);

}  // namespace unisono
