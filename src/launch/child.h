#pragma once

#include <csignal>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/file_descriptor.h"
#include "launch/environment_block.h"
#include "launch/signals.h"
#include "launch/watchdog.h"

namespace unisono::launcher {

/// What runs as a rank: a program, or a function of this process in the forked child (its return value is the exit code; an exception that
/// leaves it is code 1). The function gets the rank's variables; the process's own environment is never written.
struct Task {
  std::string path = {};                    ///< of the program's file
  std::vector<std::string> arguments = {};  ///< with the program's name first
  std::function<int(const base::Environment&)> function = {};
};

/// Everything one child needs, prepared before fork: between fork and exec nothing may be allocated.
struct ChildPlan {
  EnvironmentBlock environment;
  std::optional<int> stdin_fd = {}, stdout_fd = {}, stderr_fd = {};  ///< become 0, 1, 2 where given
  int launcher_fd = -1;                                              ///< stays open in the child
  int pmi_fd = -1;                                                   ///< so does this one, of an MPI
  std::optional<int> cpu = {};                                       ///< the only processor it may run on
  std::size_t descriptor_limit = 0;                                  ///< to put back; 0: as it is
  const SignalScope* signals = nullptr;                              ///< to undo in the child; nullptr: nothing was changed
  std::span<const int> close_in_function = {};                       ///< descriptors of the launcher, for a child without exec
};

struct Child {
  pid_t pid = -1;
  base::FileDescriptor pidfd = {};
};

/// Forks one rank: a process group of its own, guarded by the watchdog, and ended by the kernel when the calling *thread* ends, so call it from
/// one that lives as long as the job. Returns when the program runs. StartFailed where it cannot be started.
Child start_child(const Task& task, ChildPlan& plan, const Watchdog& watchdog);

}  // namespace unisono::launcher
