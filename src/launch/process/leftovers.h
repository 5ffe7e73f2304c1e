#pragma once

#include <sys/types.h>

#include <span>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"

namespace unisono::launcher {

/// A process of the job that a rank has started and left behind.
struct Leftover {
  pid_t pid;
  base::FileDescriptor pidfd;  ///< readable when the process has ended

  void send(int signal) const noexcept;  ///< through the pidfd, so that no other process can get it
};

/// Returns every living process that belongs to one of the process groups, or whose environment carries UNISONO_JOB_ID=job_id (a process that made a
/// session of its own). Parents and children are not followed, because a process may be adopted by an unrelated one.
std::vector<Leftover> find_leftovers(std::string_view job_id, std::span<const pid_t> groups);

}  // namespace unisono::launcher
