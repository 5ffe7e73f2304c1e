#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "unisono/detail/standard.h"
#include "unisono/export.h"
#include "unisono/process_group.h"

// Calls of a controller on its workers, without the types of their arguments: what the templates of controller.h, the
// Python package and remote tensors stand on.

namespace unisono {

/// The workers of a controller.
struct ControllerOptions {
  /// The number of workers to start, on this host, if no launcher has started this process. In a job the other ranks are
  /// the workers, whatever it says.
  int workers = 0;
  /// The backend, as in InitOptions.
  std::string backend = "auto";
  /// The deadline of every collective among the workers. Calls themselves have none.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  /// The largest number of calls that are under way for one worker. A further call waits for one of them to end.
  int most_in_flight = 1024;
};

namespace detail {

/// Contiguous bytes that travel from where they lie into memory of their own. The sender does not
/// change them until the call is done.
struct FramePart {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  /// Keeps the memory alive; the library holds it until the bytes are away.
  std::shared_ptr<void> owner = {};
  /// A number of the sender's, which the receiver gets: which argument it is, for instance.
  std::uint32_t slot = 0;
};

/// The arguments of a call, or its result: a body, which is copied, and large parts, which are not.
struct Frame {
  std::vector<std::byte> body = {};
  std::vector<FramePart> parts = {};
};

/// Vectors and strings of this many bytes and more travel as parts.
inline constexpr std::size_t least_part = std::size_t{64} << 10;

/// Makes the memory into which a part is received, of that many bytes. It may throw: the call then fails with that.
using PartMemory = std::function<FramePart(std::uint32_t slot, std::size_t bytes)>;
/// Makes memory that is not initialised, at an address that is a multiple of 64.
UNISONO_API FramePart part_memory(std::uint32_t slot, std::size_t bytes);

/// The things that a function on a worker gets in addition to its arguments.
struct RemoteRun {
  /// The worker's number, from 0.
  int worker = -1;
  /// The object on which a method is called. A maker puts the new object here.
  std::shared_ptr<void> object = {};
  /// The number of the object; 0 for a plain function.
  std::uint64_t object_id = 0;
};

/// A function that a controller may call on a worker.
struct RemoteFunction {
  enum class Kind : std::uint8_t {
    function,  ///< of its arguments alone
    maker,     ///< makes an object of the type `actor`
    method,    ///< of an object of that type
  };
  /// The name in errors, and with the signature the identity: no two functions have both in common. Processes compare them when they meet.
  std::string name;
  /// As in "(string, int32) -> float64".
  std::string signature;
  Kind kind = Kind::function;
  std::string actor = {};
  /// Called on the worker, in the thread that serves. Its exception is the call's error.
  std::function<Frame(RemoteRun& run, Frame&& arguments)> run = {};
  /// Makes the memory of the arguments' parts; empty: part_memory.
  PartMemory memory = {};
  /// Whether processes compare it when they meet. Otherwise a worker that lacks it says so when it is called.
  bool is_compared = true;
};

/// Adds a function to those of this process, which last as long as the process does. May be called at any time, by any
/// thread, before main as well.
///
/// @throws InvalidArgument if there is one of that name and signature
UNISONO_API const RemoteFunction& register_remote(RemoteFunction function);
/// The same for objects of static storage. A function that is registered twice is told by the constructor of the next
/// controller, and the first one is returned.
UNISONO_API const RemoteFunction& declare_remote(RemoteFunction function) noexcept;
/// Returns the function; null if there is none.
UNISONO_API const RemoteFunction* find_remote(std::string_view name, std::string_view signature) noexcept;

/// Ties a pointer to a function, or to a member function, of that type to what it is registered as. `pointer`: its bytes.
UNISONO_API void name_remote(const std::type_info& type, std::span<const std::byte> pointer, const RemoteFunction& function) noexcept;
/// Returns what the pointer was tied to; null if it was not.
UNISONO_API const RemoteFunction* find_remote(const std::type_info& type, std::span<const std::byte> pointer) noexcept;
/// Returns the name of a type as its user writes it, without our namespace.
UNISONO_API std::string type_text(const std::type_info& type);

/// A call to be made.
struct RemoteRequest {
  const RemoteFunction* function = nullptr;
  Frame arguments = {};
  /// The types of the arguments for errors, as in "string, int32". Empty: those of the signature.
  std::string types = {};
  std::source_location where = {};
  /// Of a method, the object; of a maker, the number that RemoteWorkers::new_object has returned.
  std::uint64_t object = 0;
  /// Makes the memory of the result's parts; empty: part_memory.
  PartMemory memory = {};
  /// Whether the result comes back. Without it the worker answers only if the call fails: such a call costs half as much. It is
  /// done when something else has come that the worker did later, or when somebody waits for it; its result is an empty frame.
  bool has_result = true;
};

/// A call that was made. It may be used by any thread, and may outlive the controller: what is still under way at its end has an error then.
class UNISONO_API RemoteCall {
 public:
  virtual ~RemoteCall();
  RemoteCall(const RemoteCall&) = delete;
  RemoteCall& operator=(const RemoteCall&) = delete;

  /// Tells whether it is done, well or not. Never blocks, and advances nothing.
  virtual bool is_done() const noexcept = 0;
  /// Looks once for what has come, and tells whether the call is done.
  virtual bool poll() = 0;
  /// Waits until the call is done, or so long. Returns whether it is done. Throws only what an InterruptionCheck throws.
  virtual bool wait(std::optional<std::chrono::milliseconds> at_most = {}) = 0;
  /// Waits for the call and returns its result, or throws its error. The result is there for the first caller only: a second one
  /// gets InvalidArgument. The error is thrown each time.
  virtual Frame take() = 0;
  /// Returns the error; null while the call is under way, and if it went well.
  virtual std::exception_ptr error() const = 0;
  /// Asks the worker to leave the call out if it has not begun; it has the error Cancelled then.
  /// Returns false if it is done already, and true otherwise, at once: the outcome is known when the
  /// call is done.
  virtual bool cancel() = 0;
  /// Calls the function once, when the call is done: at once in this thread if it is, otherwise in the
  /// thread that learns of it, which holds no lock. It must not throw. A thread of the library's sees
  /// to it if no other waits.
  virtual void then(std::function<void()> f) = 0;
  /// Returns the number of the worker, from 0.
  virtual int worker() const noexcept = 0;

 protected:
  RemoteCall() = default;
};

/// Waits until one of the calls is done, and returns its index; std::nullopt if none is after this
/// time.
///
/// @throws InvalidArgument for an empty list, and for calls of several controllers
UNISONO_API std::optional<std::size_t> wait_any(std::span<const std::shared_ptr<RemoteCall>> calls,
                                                std::optional<std::chrono::milliseconds> at_most = {});

/// The workers as the controller's process sees them. All functions except `replace` and `end` may be
/// called by any thread.
class UNISONO_API RemoteWorkers {
 public:
  virtual ~RemoteWorkers();
  RemoteWorkers(const RemoteWorkers&) = delete;
  RemoteWorkers& operator=(const RemoteWorkers&) = delete;

  virtual int size() const noexcept = 0;
  /// Sends the call and returns. Waits only while most_in_flight calls of the worker are under way, and for what does not fit the
  /// connection.
  ///
  /// The call of a dead worker is done at once, with PeerFailed as its error, whose culprit is the number of the worker.
  ///
  /// @throws InvalidArgument for a number that no worker has, and for arguments above the limit of objects
  /// @throws NotInitialized after `end`
  virtual std::shared_ptr<RemoteCall> begin(int worker, RemoteRequest request) = 0;
  /// Returns a number for an object, which no other object of this controller has. The call of a maker with it may be followed at once by
  /// calls of its methods.
  virtual std::uint64_t new_object() noexcept = 0;
  /// Has the worker drop an object, behind all calls that were made before. Never throws; of a dead worker it does nothing.
  virtual void release(int worker, std::uint64_t object) noexcept = 0;
  /// Returns why no call of this worker can go well any more; null: it lives, as far as that is known.
  virtual std::exception_ptr failure(int worker) = 0;
  /// Returns how often the worker was replaced. Its objects are gone each time.
  virtual int generation(int worker) const = 0;
  /// Waits until all calls are done, and puts another process in the place of a dead worker. See Controller::replace.
  virtual void replace(int worker, std::source_location where) = 0;
  /// Returns the group of the controller, which is rank 0, and all workers.
  virtual ProcessGroup everyone() const = 0;
  /// Ends the controller: waits for all calls, and lets the workers end in order. With a reason the workers end with it at once, and calls under
  /// way have it as their error. Later calls do nothing. The destructor does it without a reason.
  virtual void end(std::string_view reason = {}) = 0;

 protected:
  RemoteWorkers() = default;
};

/// The outcome of a meeting of a controller and its workers.
struct RemoteMeeting {
  /// The workers, in the controller's process; null in a worker, whose work is done: its process ends now with `exit_code`.
  std::shared_ptr<RemoteWorkers> workers = {};
  int exit_code = 0;
};

/// Meets the other processes of the job, after `initialize` if that was not called. In rank 0 it returns the workers. In every other rank it
/// serves calls in this thread, and returns when the controller has ended.
///
/// @throws InvalidArgument for a process that is alone if no workers are asked for, and for a function that is registered twice
/// @throws Mismatch if the processes have different functions; it names one and who has it
UNISONO_API RemoteMeeting meet_workers(const ControllerOptions& options, std::source_location where = std::source_location::current());

/// Calls the function with the workers of every controller that this process makes from now on, and with those of the one that it has. Components use
/// it whose data may be on workers.
UNISONO_API void observe_workers(void (*met)(const std::shared_ptr<RemoteWorkers>& workers));

/// Returns the number of this worker, from 0, inside a call; -1 anywhere else.
UNISONO_API int worker_number() noexcept;
/// Returns the group of the controller, which is rank 0, and all workers, in a call and in the controller.
///
/// @throws InvalidArgument anywhere else
UNISONO_API ProcessGroup everyone(std::source_location where = std::source_location::current());

}  // namespace detail
}  // namespace unisono
