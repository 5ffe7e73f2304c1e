#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/export.h"

namespace unisono {

class Error;
namespace base {
/// Records the place of a call in an error that has none yet. The library calls it; programs do not.
UNISONO_API void set_place(Error& error, const std::source_location& where);
}  // namespace base

/// The facts that an error knows beside its sentence. The message leaves out those that are empty.
struct ErrorInfo {
  /// The call, as the user spells it: "all_reduce".
  std::string operation = {};
  /// The name of the group; "world" for the default one.
  std::string group = {};
  /// The number of the operation within its group, counted from 1; 0 if it is not within one.
  std::uint64_t sequence = 0;
  /// The caller's rank in the group; -1 if it has none yet.
  int rank = -1;
  /// The rank in the group that caused the error, if there is one.
  std::optional<int> culprit = {};
  /// The culprit's host.
  std::string host = {};
  /// The remedy, as part of the message.
  std::string hint = {};
  /// The call in the caller's source; line 0 if it is not known. Places within this library are
  /// left out.
  std::source_location where = {};
  /// Caller and culprit by their ranks in the world; -1 if these are not known. The message shows them
  /// if they differ from those in the group.
  int world_rank = -1, world_culprit = -1;
};

/// The base of everything that unisono throws. `what()` is the whole sentence; the accessors give
/// its parts.
///
/// ```cpp
/// try {
///   all_reduce(gradients);
/// } catch (const PeerFailed& error) {                // the group is over
///   log(error.what(), error.culprit(), error.host());
/// } catch (const Error& error) {                     // anything else
///   …
/// }
/// ```
///
/// InvalidArgument and Mismatch leave a group usable. Timeout and PeerFailed end it: later calls on
/// it throw the same at once, and shrink_group makes a new group of the survivors. docs/troubleshooting/errors.md
/// has the whole table.
class UNISONO_API Error : public std::runtime_error {
 public:
  /// Makes an error whose `what()` is the message together with operation, group, place, culprit
  /// and hint.
  explicit Error(std::string_view message, ErrorInfo info = {});
  ~Error() override;
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;

  /// Returns the sentence without operation, group and hint.
  const std::string& message() const noexcept { return message_; }
  /// Returns the call: "all_reduce".
  const std::string& operation() const noexcept { return info_.operation; }
  /// Returns the name of the group.
  const std::string& group() const noexcept { return info_.group; }
  /// Returns the number of the operation within its group, from 1; 0 if it is not within one.
  std::uint64_t sequence() const noexcept { return info_.sequence; }
  /// Returns the caller's rank in the group; -1 if it has none yet.
  int rank() const noexcept { return info_.rank; }
  /// Returns the rank in the group that caused the error, if there is one.
  std::optional<int> culprit() const noexcept { return info_.culprit; }
  /// Returns the culprit's rank in the world, if there is a culprit and its place there is known.
  std::optional<int> world_culprit() const noexcept { return info_.world_culprit < 0 ? std::nullopt : std::optional(info_.world_culprit); }
  /// Returns the culprit's host.
  const std::string& host() const noexcept { return info_.host; }
  /// Returns the remedy.
  const std::string& hint() const noexcept { return info_.hint; }
  /// Returns the call in the caller's source; `what()` shortens its file name.
  ///
  /// A call from Python has its line there. std::nullopt stands for a call whose place is not known,
  /// as that of one whose options were made without braces.
  std::optional<std::source_location> where() const noexcept { return info_.where.line() == 0 ? std::nullopt : std::optional(info_.where); }
  /// Returns all facts together.
  const ErrorInfo& info() const noexcept { return info_; }
  /// Returns what(), as if the call stood at this place ("train.py:12"), for bindings that learn it
  /// later than the library. Returns what() itself if the place is known already.
  std::string what_at(std::string_view place) const;

 private:
  friend void base::set_place(Error& error, const std::source_location& where);
  std::string message_;
  ErrorInfo info_;
};

/// A call is wrong by itself. It is thrown before anything is sent, and the group stays usable.
class UNISONO_API InvalidArgument : public Error {
 public:
  using Error::Error;
  ~InvalidArgument() override;
};

/// The process was launched as one of several and has not called `initialize`, or it was forked
/// from one that had.
class UNISONO_API NotInitialized : public Error {
 public:
  using Error::Error;
  ~NotInitialized() override;
};

/// `initialize` was called a second time. The first context stays as it is.
class UNISONO_API AlreadyInitialized : public Error {
 public:
  using Error::Error;
  ~AlreadyInitialized() override;
};

/// The calling process does not belong to the group.
class UNISONO_API NotMember : public Error {
 public:
  using Error::Error;
  ~NotMember() override;
};

/// The backend cannot do this operation (for this dtype, on this device); another may.
class UNISONO_API Unsupported : public Error {
 public:
  using Error::Error;
  ~Unsupported() override;
};

/// The backend that was asked for cannot run here. The message says what is missing.
class UNISONO_API BackendUnavailable : public Error {
 public:
  using Error::Error;
  ~BackendUnavailable() override;
};

/// The ranks called different things. It is thrown on every rank; nothing was moved, and the group
/// stays usable. A message that does not fit its receive is a Mismatch of the receiver alone.
///
/// The message lists the calls. `culprit()` is the lowest rank whose call differs from that of the
/// majority; it is empty if no call has one.
class UNISONO_API Mismatch : public Error {
 public:
  using Error::Error;
  ~Mismatch() override;
};

/// A deadline passed. The group is over: later calls throw the same at once.
class UNISONO_API Timeout : public Error {
 public:
  /// Makes the error of a call that waited for the missing ranks.
  explicit Timeout(std::string_view message, ErrorInfo info = {}, std::vector<int> missing = {});
  ~Timeout() override;
  Timeout(const Timeout&) = default;
  Timeout& operator=(const Timeout&) = default;
  /// Returns the ranks that did not arrive, in ascending order, as far as they are known.
  const std::vector<int>& missing() const noexcept { return missing_; }

 private:
  std::vector<int> missing_;
};

/// A peer is gone or gave up. The group is over: later calls throw the same at once. `culprit()` is
/// the peer.
class UNISONO_API PeerFailed : public Error {
 public:
  /// The end of the peer, as the others have seen it.
  enum class Cause {
    exited,        ///< its process ended by itself before finalize
    killed,        ///< its process was ended by a signal
    silent,        ///< alive for the system, but stopped for longer than the limit
    aborted,       ///< it called abort, or an exception left its scope
    disconnected,  ///< it has left the group (finalize), or its connection broke
  };
  using enum Cause;

  /// Makes the error of a call on a group whose member failed.
  explicit PeerFailed(std::string_view message, ErrorInfo info = {}, Cause cause = Cause::disconnected);
  ~PeerFailed() override;
  PeerFailed(const PeerFailed&) = default;
  PeerFailed& operator=(const PeerFailed&) = default;
  /// Returns the end of the peer.
  Cause cause() const noexcept { return cause_; }

 private:
  Cause cause_;
};

/// The bytes on a connection are not those of this library and version: another version, or a
/// broken or hostile peer.
class UNISONO_API ProtocolError : public Error {
 public:
  using Error::Error;
  ~ProtocolError() override;
};

/// The end of a process that was started for a job.
struct ProcessEnd {
  /// The rank in the world of the job.
  int rank = 0;
  /// The exit code, unless a signal ended the process.
  std::optional<int> exit_code = {};
  /// The name of the signal that ended it, "SIGKILL"; empty if none did.
  std::string signal = {};
  /// The type of the exception that left its function: "InvalidArgument", "std::out_of_range";
  /// empty if none did.
  std::string error_type = {};
  /// The text of that exception.
  std::string message = {};
  /// Whether the process ended in any way but well.
  bool failed = false;
  /// Whether it failed, or was ended, because another had failed before.
  bool is_consequence = false;
};

/// A process of the job did not start, or did not end well. `culprit()` is the rank that failed first.
class UNISONO_API LaunchFailed : public Error {
 public:
  /// Makes the error of a job whose processes ended like this.
  explicit LaunchFailed(std::string_view message, ErrorInfo info = {}, std::vector<ProcessEnd> ends = {});
  ~LaunchFailed() override;
  LaunchFailed(const LaunchFailed&) = default;
  LaunchFailed& operator=(const LaunchFailed&) = default;
  /// Returns the ends of all processes that were started here, by rank; empty if none was started.
  const std::vector<ProcessEnd>& ends() const noexcept { return ends_; }

 private:
  std::vector<ProcessEnd> ends_;
};

/// A call of a controller failed on its worker by an exception that is none of unisono's. Those arrive in their own type. The message has the
/// worker, the function with the types of its arguments, and what() of the exception; `where()` is the call in the controller's source, and
/// `culprit()` the number of the worker.
class UNISONO_API RemoteError : public Error {
 public:
  /// Makes the error of a call that failed by an exception of this type: "std::out_of_range".
  explicit RemoteError(std::string_view message, ErrorInfo info = {}, std::string type = {});
  ~RemoteError() override;
  RemoteError(const RemoteError&) = default;
  RemoteError& operator=(const RemoteError&) = default;
  /// Returns the type of the exception on the worker: "std::out_of_range".
  const std::string& type() const noexcept { return type_; }

 private:
  std::string type_;
};

/// A call of a controller was cancelled before it had begun.
class UNISONO_API Cancelled : public Error {
 public:
  using Error::Error;
  ~Cancelled() override;
};

/// Returns the name of the enumerator: "killed".
UNISONO_API std::string_view to_string(PeerFailed::Cause cause) noexcept;

}  // namespace unisono
