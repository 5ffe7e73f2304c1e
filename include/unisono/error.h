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
UNISONO_API void set_place(Error& error, const std::source_location& where);
}

/// What an error knows beside its sentence. Empty fields are left out of the message.
struct ErrorInfo {
  std::string operation = {};       ///< the call, as the user spells it: "all_reduce"
  std::string group = {};           ///< name of the group, "world" for the default one
  std::uint64_t sequence = 0;       ///< number of the operation within its group, counted from 1; 0: not within one
  int rank = -1;                    ///< the caller's rank in the group; -1: it has none yet
  std::optional<int> culprit = {};  ///< rank (in the group) that caused the error, where one did
  std::string host = {};            ///< the culprit's host
  std::string hint = {};            ///< what to do about it
  std::source_location where = {};  ///< the call in the caller's source; line 0: not known. Places in this library are left out
};

/// Base of everything unisono throws. `what()` is the whole sentence; the accessors give its parts.
class UNISONO_API Error : public std::runtime_error {
 public:
  explicit Error(std::string_view message, ErrorInfo info = {});
  ~Error() override;
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;

  const std::string& message() const noexcept { return message_; }  ///< the sentence without operation, group and hint
  const std::string& operation() const noexcept { return info_.operation; }
  const std::string& group() const noexcept { return info_.group; }
  std::uint64_t sequence() const noexcept { return info_.sequence; }
  int rank() const noexcept { return info_.rank; }
  std::optional<int> culprit() const noexcept { return info_.culprit; }
  const std::string& host() const noexcept { return info_.host; }
  const std::string& hint() const noexcept { return info_.hint; }
  /// The call in the caller's source; `what()` shortens its file name. nullopt for a call that does not come from C++, or whose options are made
  /// without braces.
  std::optional<std::source_location> where() const noexcept { return info_.where.line() == 0 ? std::nullopt : std::optional(info_.where); }
  const ErrorInfo& info() const noexcept { return info_; }

 private:
  friend void base::set_place(Error& error, const std::source_location& where);
  std::string message_;
  ErrorInfo info_;
};

/// A call that is wrong by itself: thrown before anything is sent, the group stays usable.
class UNISONO_API InvalidArgument : public Error {
 public:
  using Error::Error;
  ~InvalidArgument() override;
};

/// The process was launched as one of several but has not called initialize (or was forked from one that had).
class UNISONO_API NotInitialized : public Error {
 public:
  using Error::Error;
  ~NotInitialized() override;
};

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

/// This backend cannot do this operation (for this dtype, on this device); another may.
class UNISONO_API Unsupported : public Error {
 public:
  using Error::Error;
  ~Unsupported() override;
};

/// The backend asked for cannot run here; the message says what is missing.
class UNISONO_API BackendUnavailable : public Error {
 public:
  using Error::Error;
  ~BackendUnavailable() override;
};

/// The ranks called different things. Thrown on every rank; nothing was moved, the group stays usable.
class UNISONO_API Mismatch : public Error {
 public:
  using Error::Error;
  ~Mismatch() override;
};

/// A deadline passed. Poisons the group: later calls throw the same at once.
class UNISONO_API Timeout : public Error {
 public:
  explicit Timeout(std::string_view message, ErrorInfo info = {}, std::vector<int> missing = {});
  ~Timeout() override;
  Timeout(const Timeout&) = default;
  Timeout& operator=(const Timeout&) = default;
  const std::vector<int>& missing() const noexcept { return missing_; }  ///< ranks that did not arrive, ascending

 private:
  std::vector<int> missing_;
};

/// A peer is gone or gave up. Poisons the group.
class UNISONO_API PeerFailed : public Error {
 public:
  enum class Cause {
    exited,        ///< its process ended by itself before finalize
    killed,        ///< its process was ended by a signal
    silent,        ///< alive for the system, but stopped for longer than the limit
    aborted,       ///< it called abort, or an exception left its scope
    disconnected,  ///< it has left the group (finalize), or its connection broke
  };
  using enum Cause;

  explicit PeerFailed(std::string_view message, ErrorInfo info = {}, Cause cause = Cause::disconnected);
  ~PeerFailed() override;
  PeerFailed(const PeerFailed&) = default;
  PeerFailed& operator=(const PeerFailed&) = default;
  Cause cause() const noexcept { return cause_; }

 private:
  Cause cause_;
};

/// Bytes on a connection that are not ours: another version, a broken or hostile peer.
class UNISONO_API ProtocolError : public Error {
 public:
  using Error::Error;
  ~ProtocolError() override;
};

/// How one process that was started for a job ended.
struct ProcessEnd {
  int rank = 0;                       ///< in the world of the job
  std::optional<int> exit_code = {};  ///< unless a signal ended it
  std::string signal = {};            ///< the name of the signal that ended it, "SIGKILL"; empty: none did
  std::string error_type = {};        ///< of the exception that left its function: "InvalidArgument", "std::out_of_range"; empty: none did
  std::string message = {};           ///< what that exception said
  bool failed = false;
  bool is_consequence = false;  ///< it failed because another had failed before, or was ended then
};

/// A process that we were to start did not start, or did not end well. culprit(): the rank that failed first.
class UNISONO_API LaunchFailed : public Error {
 public:
  explicit LaunchFailed(std::string_view message, ErrorInfo info = {}, std::vector<ProcessEnd> ends = {});
  ~LaunchFailed() override;
  LaunchFailed(const LaunchFailed&) = default;
  LaunchFailed& operator=(const LaunchFailed&) = default;
  const std::vector<ProcessEnd>& ends() const noexcept { return ends_; }  ///< of all processes started here, by rank; empty where none was started

 private:
  std::vector<ProcessEnd> ends_;
};

UNISONO_API std::string_view to_string(PeerFailed::Cause cause) noexcept;

}  // namespace unisono
