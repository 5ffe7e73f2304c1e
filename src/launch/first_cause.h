#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>

namespace unisono::launcher {

/// How one rank ended, and what it had said of itself.
struct RankEnd {
  enum class How { running, exited, signaled };

  int rank = 0;
  pid_t pid = -1;
  std::string host = {};  ///< where it ran
  How how = How::running;
  int code = 0;  ///< exit code, or the signal's number
  bool dumped_core = false;
  bool is_taken = false;               ///< a SIGCHLD handler of the program's own has reaped it: `code` is not known
  bool ended_by_launcher = false;      ///< it had been told to end before it did: never a cause
  bool left_without_finalize = false;  ///< exit code 0, initialised, in a sound group
  int order = 0;                       ///< 0 for the first that was seen to end
  std::string status = {};             ///< last value of unisono/status/<rank>: "", "initialized", "finalized", "shrunk", "poisoned <culprit> <text>"

  bool failed() const { return how == How::signaled || (how == How::exited && (code != 0 || left_without_finalize)); }
  /// As a shell counts: 128 + signal, or the code.
  int exit_code() const;
  /// "ended by signal 9 (SIGKILL)", "exited with code 7", …
  std::string describe() const;
};

/// Whom a "poisoned …" status names.
std::optional<int> blamed_rank(const RankEnd& end);

/// It was poisoned by another rank.
bool is_consequence(const RankEnd& end);

/// The rank that started it, as index into `ends`; nothing where no rank failed of its own accord.
///
/// A rank that failed because its group was poisoned by another is a consequence, however it ended (an exception nobody catches is SIGABRT).
/// Of the others the one that most poisoned ranks blame wins; else a signal beats an exit code (a core takes its time to be written, peers that
/// noticed the loss may be gone before); else the first that was seen to end.
std::optional<std::size_t> first_cause(std::span<const RankEnd> ends);

}  // namespace unisono::launcher
