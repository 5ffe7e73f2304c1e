#pragma once

#include <cstddef>
#include <exception>
#include <span>
#include <utility>

#include "unisono/detail/standard.h"
#include "unisono/export.h"

namespace unisono {

namespace detail {
/// The state of an operation, which the copies of its Work share.
struct WorkState;
struct WorkAccess;
}  // namespace detail

/// An operation that may still be under way: the result of every NAME_async, isend, irecv and
/// batch.
///
/// The operation's buffers belong to the library until it is done. Copies of a Work refer to the
/// same operation. A Work that is dropped still completes; if the operation fails and nobody has
/// asked for the error, the group's next call throws it.
///
/// ```cpp
/// Work work = all_reduce_async(gradients);
/// compute_something_else();
/// work.wait();                                       // gradients may be read from here on
/// ```
///
/// An operation on device memory is first handed to the device and done there later. `wait` then orders
/// the caller's stream after it, as torch does, and does not hold up the host (cuda.h).
class [[nodiscard]] UNISONO_API Work {
 public:
  /// Makes a Work that is done.
  Work() noexcept = default;
  /// Makes a further handle of the same operation.
  Work(const Work& other) noexcept;
  /// Takes over the handle.
  Work(Work&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  /// Refers to the operation of the other handle from here on.
  Work& operator=(Work other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Work() {
    if (state_ != nullptr) drop();
  }
  /// Returns when the operation is done, and throws its error. The calling thread drives the
  /// operation while it waits.
  ///
  /// An operation on device memory counts as done here when the device has it: what is put on the
  /// caller's current stream from then on comes after it.
  void wait();
  /// Waits for at most `timeout` and returns whether the operation is done, on the device as well.
  /// The operation goes on after a return of false. Throws its error.
  bool wait_for(std::chrono::milliseconds timeout);
  /// Tells whether the operation is done, well or not. Never blocks.
  bool is_completed() const;
  /// Takes a receive back that nobody wants any more. Returns false if it was matched with a message
  /// already, if it is done, and for every operation except a receive. Nothing has happened then.
  ///
  /// After true the operation is done: `wait` returns, `source_rank` is -1, and the buffer is the
  /// caller's again, with its elements as they were. A message that comes later is taken by the next
  /// receive that fits.
  ///
  /// ```cpp
  /// Work next = irecv(command, any_source);
  /// …
  /// if (!next.cancel()) {                              // it had come after all
  ///   next.wait();
  ///   handle(command);
  /// }
  /// ```
  bool cancel();
  /// Returns the operation's error; null while it is under way and if it went well.
  std::exception_ptr exception() const;
  /// Calls the function once, when `is_completed` has become true: at once in this thread if it has,
  /// otherwise in the thread that completes the operation, which may be inside a call on the same
  /// group.
  ///
  /// The function must not throw and must not call on that group. It holds no lock of the library
  /// and may call on other groups. It should be short, since no other asynchronous operation of
  /// this process may advance while it runs.
  void on_completion(std::function<void()> callback);
  /// Returns the sender's rank in the group for a receive that is done, and -1 for anything else.
  int source_rank() const;
  /// Returns the tag of the message that a receive has taken, and 0 for anything else.
  int tag() const;

  /// Makes the handle of an operation that counts it already. The library calls it.
  explicit Work(detail::WorkState* state) noexcept : state_(state) {}

 private:
  friend std::size_t wait_any(std::span<Work> works);
  friend struct detail::WorkAccess;
  void drive_until(const std::function<bool()>& done);
  bool is_settled() const;
  std::exception_ptr error() const;
  void drop() noexcept;

  detail::WorkState* state_ = nullptr;
};

/// Waits for all operations, then throws the first error in the order of the list, if there is any.
UNISONO_API void wait_all(std::span<Work> works);

/// Waits until some operation is done, returns its index, and throws its error. An operation that
/// was done before counts.
///
/// @throws InvalidArgument if the list is empty
UNISONO_API std::size_t wait_any(std::span<Work> works);

}  // namespace unisono
