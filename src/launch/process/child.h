#pragma once

#include <csignal>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/file_descriptor.h"
#include "launch/process/environment_block.h"
#include "launch/process/signals.h"
#include "launch/process/watchdog.h"

namespace unisono::launcher {

/// The code of a rank: a program, or a function of this process that runs in the forked child. The function's return value is the exit code; an
/// exception that leaves it is code 1. It gets the rank's variables as an argument; the environment of the process is never written.
struct Task {
  std::string path = {};                    ///< the program's file
  std::vector<std::string> arguments = {};  ///< the program's name comes first
  std::function<int(const base::Environment&)> function = {};
  std::vector<int> program_descriptors = {};  ///< of a function: those that were open before the job, which it may use
};

/// All that a child needs, prepared before fork, because nothing may be allocated between fork and exec.
struct ChildPlan {
  EnvironmentBlock environment;
  std::optional<int> stdin_fd = {}, stdout_fd = {}, stderr_fd = {};  ///< become 0, 1, 2 where given
  int launcher_fd = -1;                                              ///< stays open in the child
  int record_fd = -1;                                                ///< stays open in the child
  int pmi_fd = -1;                                                   ///< stays open in the child, for an MPI
  std::span<const int> processors = {};                              ///< the only ones it may run on; empty: those of the launcher
  std::size_t descriptor_limit = 0;                                  ///< the limit to restore; 0: leave it
  const SignalScope* signals = nullptr;                              ///< to undo in the child; null: nothing was changed
};

struct Child {
  pid_t pid = -1;
  base::FileDescriptor pidfd = {};
};

/// Forks one rank. The rank has a process group of its own and is guarded by the watchdog. The kernel ends it when the calling *thread* ends, so call
/// this from a thread that lives as long as the job. Returns when the program runs. Throws StartFailed where it cannot be started.
Child start_child(const Task& task, ChildPlan& plan, const Watchdog& watchdog);

}  // namespace unisono::launcher
