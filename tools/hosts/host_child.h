#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/secret.h"
#include "launch/process/environment_block.h"

namespace unisono::tools {

/// The `unisono` that an agent has started on its host, in a process group of its own. It is killed where the agent ends first.
struct HostChild {
  pid_t pid = -1;
  base::FileDescriptor pidfd = {};
  base::FileDescriptor input = {};                               ///< writes to its standard input
  base::FileDescriptor output = {}, errors = {}, messages = {};  ///< read what it writes; messages are the launcher's own
};

/// Starts `unisono __launch … WORDS`. `secret`: of the job, a file that it may open by its number; may be none. Throws StartFailed.
HostChild start_host_child(const std::vector<std::string>& words, const base::FileDescriptor& secret, launcher::EnvironmentBlock& environment);

/// Returns a file in memory with the secret, which only this user can open.
base::FileDescriptor secret_file(const base::Secret& secret);

/// Returns true while a signal that was sent to the process has not been taken. Another one of that number would be lost.
bool is_pending(pid_t pid, int signal);

}  // namespace unisono::tools
