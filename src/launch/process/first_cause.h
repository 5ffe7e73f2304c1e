#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace unisono::launcher {

/// How one rank ended, and the last status that it wrote. A status is
///   ""                                     the rank has not initialized and is in no group
///   "initialized", "finalized", "shrunk"   about the world
///   "controlled"                           about the world of a controller: the others go on if a worker is lost
///   "member"                               in a group that is not the world of unisono::initialize (torch.distributed)
///   "poisoned <culprit> <text>"            its group is over
///   "mismatch <culprit> <ranks> <text>"    its last call was a Mismatch that compared so many ranks; culprit -1: unknown
struct RankEnd {
  enum class How { running, exited, signaled };

  int rank = 0;           ///< of the start: the number of the process's place in the job
  std::string name = {};  ///< of this process in its place: "2", or "2.1" for the first that has replaced it
  pid_t pid = -1;
  std::string host = {};  ///< the host of the rank
  How how = How::running;
  int code = 0;  ///< exit code, or the signal's number
  bool dumped_core = false;
  bool out_of_memory = false;          ///< ended by SIGKILL, and the kernel killed a process of the ranks' cgroup because memory ran out
  bool is_taken = false;               ///< a SIGCHLD handler of the program has reaped it: `code` is not known
  bool ended_by_launcher = false;      ///< told to end before it ended: never a cause
  bool left_without_finalize = false;  ///< exit code 0, initialised, in a sound group
  bool is_survived = false;            ///< the other ranks have gone on without it: no cause of what came later
  bool is_well = false;                ///< in a job that goes on without lost ranks: a member that has ended well
  int order = 0;                       ///< 0 for the first rank seen to end
  int waited = -1;                     ///< thousandths of its time since it joined in which it has waited for others; -1: not known
  std::uint64_t calls = 0;             ///< that it has made; 0: not known, as on other hosts
  std::string status = {};             ///< last value of unisono/status/<rank>, see above

  bool failed() const { return how == How::signaled || (how == How::exited && (code != 0 || left_without_finalize)); }
  /// Returns the code that a shell would report: 128 + signal, or the exit code.
  int exit_code() const;
  /// Returns "ended by SIGKILL", "exited with code 7", …
  std::string describe() const;
};

/// The content of a "mismatch …" status.
struct MismatchSeen {
  int culprit = -1;  ///< -1: unknown
  int ranks = 0;     ///< how many were compared
  std::string text = {};
};
std::optional<MismatchSeen> mismatch_of(const RankEnd& end);

/// Returns the Mismatch that ended the job, as reported by the rank that compared the most ranks; nothing where something else ended it. A rank that
/// has caught a Mismatch and gone on has another status later, or ends by another signal than that of an exception.
std::optional<MismatchSeen> fatal_mismatch(std::span<const RankEnd> ends);

/// Returns the rank that a "poisoned …" status names.
std::optional<int> blamed_rank(const RankEnd& end);

/// Tells whether another rank poisoned this one's group.
bool is_consequence(const RankEnd& end);
/// Tells whether the rank has never initialized, so that no group tells it of the failure of another.
inline bool is_in_no_group(std::string_view status) { return status.empty(); }
/// Tells whether the rank is in a sound group that it has not left by finalize.
inline bool has_not_finalized(std::string_view status) { return status == "initialized" || status == "shrunk" || status == "controlled"; }

/// Returns the text of a "poisoned …" status; empty for another one.
std::string text_of_failure(const RankEnd& end);

/// Tells whether the rank is the cause only because the others name it: it has not failed by itself, but was ended with the job, or has ended well.
inline bool is_only_named(const RankEnd& cause) { return !cause.failed() || cause.ended_by_launcher; }

/// Returns the rank that failed first, as index into `ends`; nothing where no rank failed of its own accord.
///
/// A rank that failed because another poisoned its group is a consequence, however it ended (an exception nobody catches is SIGABRT). Of the others
/// the one that most poisoned ranks blame comes first. Then a signal comes before an exit code, because a core file takes time to write and peers
/// that noticed the loss may end earlier. Then the first that was seen to end counts. Where there are consequences only, the cause is the rank that
/// they name, however it ended: a rank that hung is ended by the launcher. If all of it comes from a Mismatch, the rank that differs from the most is
/// the cause; where there is none, the first that was seen to end stands for all, see fatal_mismatch.
std::optional<std::size_t> first_cause(std::span<const RankEnd> ends);

/// The same for a job that goes on without lost ranks: nothing where at least `least_ranks` have ended well, unless it was ended because too few were
/// left. A loss that the others have survived is the cause only where there is no other.
std::optional<std::size_t> first_cause_of_elastic(std::span<const RankEnd> ends, int least_ranks, bool were_too_few);

/// Returns the exit code of a job with this first cause: the cause's own, or, where it is only named, that of the rank that was seen to fail first.
int exit_code_of_job(std::span<const RankEnd> ends, std::size_t cause);

}  // namespace unisono::launcher
