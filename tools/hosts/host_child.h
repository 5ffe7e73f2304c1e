#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/secret.h"
#include "common/child.h"

namespace unisono::tools {

/// `unisono __host`: starts and watches the launcher of this host on behalf of a `unisono` on another one, with which it talks over its standard
/// input and output. Where that one is gone, is silent, or this process ends, the launcher and its ranks are killed. Returns the exit code.
int serve_as_host();

/// Starts `unisono __launch … WORDS` in a process group of its own. `secret`: of the job, a file that it may open by its number; may be none.
/// `messages` reads what the launcher itself says. Throws StartFailed.
PipedChild start_host_child(const std::vector<std::string>& words, const base::FileDescriptor& secret, launcher::EnvironmentBlock& environment,
                            base::FileDescriptor& messages);

/// Returns a file in memory with the secret, which only this user can open.
base::FileDescriptor secret_file(const base::Secret& secret);

/// Returns true while a signal that was sent to the process has not been taken. Another one of that number would be lost.
bool is_pending(pid_t pid, int signal);

/// What a launcher is told by the process of its host that a conductor of several hosts has started:
/// `unisono __launch REPORT SECRET NAME run …`.
struct Conducted {
  int report = -1;            ///< the descriptor for its messages; -1: nobody conducts it
  std::string log_name = {};  ///< of the folder in --logs
};
Conducted& conducted();

/// Returns how many words `unisono __host` has put in front of those of the sub-command; 0: nobody conducts this launcher.
std::size_t conductor_words(const std::vector<std::string>& words);
/// Takes them off, and notes what they say. The ranks get none of the descriptors.
void take_conductor_off(std::vector<std::string>& words);

}  // namespace unisono::tools
