#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace unisono::launcher {

/// How one rank ended, and what it had said of itself. Its status is
///   ""                                     it has not initialized: it is in no group
///   "initialized", "finalized", "shrunk"   the world
///   "member"                               a group that is not the world of unisono::initialize (torch.distributed)
///   "poisoned <culprit> <text>"            its group is over
///   "mismatch <culprit> <ranks> <text>"    its last call was a Mismatch, in which so many ranks were compared; culprit -1: nobody can say who
struct RankEnd {
  enum class How { running, exited, signaled };

  int rank = 0;
  pid_t pid = -1;
  std::string host = {};  ///< where it ran
  How how = How::running;
  int code = 0;  ///< exit code, or the signal's number
  bool dumped_core = false;
  bool out_of_memory = false;          ///< the kernel has killed a process of the ranks' cgroup for want of memory, when this one ended by SIGKILL
  bool is_taken = false;               ///< a SIGCHLD handler of the program's own has reaped it: `code` is not known
  bool ended_by_launcher = false;      ///< it had been told to end before it did: never a cause
  bool left_without_finalize = false;  ///< exit code 0, initialised, in a sound group
  int order = 0;                       ///< 0 for the first that was seen to end
  std::string status = {};             ///< last value of unisono/status/<rank>, see below

  bool failed() const { return how == How::signaled || (how == How::exited && (code != 0 || left_without_finalize)); }
  /// As a shell counts: 128 + signal, or the code.
  int exit_code() const;
  /// "ended by SIGKILL", "exited with code 7", …
  std::string describe() const;
};

/// What a "mismatch …" status says.
struct MismatchSeen {
  int culprit = -1;  ///< -1: nobody
  int ranks = 0;     ///< how many were compared
  std::string text = {};
};
std::optional<MismatchSeen> mismatch_of(const RankEnd& end);

/// The Mismatch that ended the job, as the rank saw it that could compare the most; nothing where it was something else. A rank that has caught a
/// Mismatch and gone on says something else later, or ends by another signal than that of an exception.
std::optional<MismatchSeen> fatal_mismatch(std::span<const RankEnd> ends);

/// Whom a "poisoned …" status names.
std::optional<int> blamed_rank(const RankEnd& end);

/// It was poisoned by another rank.
bool is_consequence(const RankEnd& end);
/// It has never initialized: no group tells it of the failure of another.
inline bool is_in_no_group(std::string_view status) { return status.empty(); }

/// The rank that started it, as index into `ends`; nothing where no rank failed of its own accord.
///
/// A rank that failed because its group was poisoned by another is a consequence, however it ended (an exception nobody catches is SIGABRT).
/// Of the others the one that most poisoned ranks blame wins; else a signal beats an exit code (a core takes its time to be written, peers that
/// noticed the loss may be gone before); else the first that was seen to end. If all of it comes from a Mismatch, the rank that differs from the
/// most is the cause; where none does, the first that was seen to end stands for all, see fatal_mismatch.
std::optional<std::size_t> first_cause(std::span<const RankEnd> ends);

}  // namespace unisono::launcher
