#pragma once

#include <array>
#include <csignal>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/printable.h"

namespace unisono::launcher {

using base::signal_name;
/// Reads "USR1", "SIGUSR1", "usr1" or "10".
std::optional<int> parse_signal(std::string_view text);

/// The signals that ask a job to end, unless they are forwarded to the ranks without further effect.
inline constexpr std::array ending_signals{SIGINT, SIGTERM, SIGQUIT, SIGHUP};

/// Takes signals over for its lifetime: they are blocked in the calling thread (and in threads it starts) and read from a descriptor instead. SIGPIPE
/// is ignored meanwhile. The destructor restores everything.
///
/// A request to end counts once. GNU timeout signals its child and then its process group, Slurm and systemd signal all processes of a job: so the
/// same ending signal within a second of the first is the same request, and is dropped.
class SignalScope {
 public:
  /// `forwarded`: those of the signals that are no request to end, whichever they are.
  explicit SignalScope(std::span<const int> signals, std::span<const int> forwarded = {});
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;

  int fd() const noexcept { return fd_.get(); }
  /// Returns the next signal that has arrived, if any.
  std::optional<int> next();
  /// Notes a request that another launcher of the job has got, because the signal may come here, too.
  void note_request(int signal);
  /// Returns the mask that a child has to restore between fork and exec.
  const sigset_t& original_mask() const noexcept { return original_mask_; }
  bool sigpipe_was_ignored() const noexcept { return original_pipe_.sa_handler == SIG_IGN; }

 private:
  bool is_repeated(int signal);

  base::FileDescriptor fd_;
  std::vector<int> forwarded_;
  int requested_ = 0;  ///< the last request; 0: none
  base::Clock::time_point requested_at_{};
  sigset_t original_mask_{};
  struct sigaction original_pipe_ {};
};

/// Keeps the exit status of children for its lifetime. The kernel forgets it in a process that ignores SIGCHLD. Of several that overlap, the last one
/// restores what was before.
class KeptChildren {
 public:
  KeptChildren();
  ~KeptChildren();
  KeptChildren(const KeptChildren&) = delete;
  KeptChildren& operator=(const KeptChildren&) = delete;
};

/// Returns true where the process was started with this signal ignored (nohup does so with SIGHUP).
bool is_ignored(int signal);

}  // namespace unisono::launcher
