#pragma once

#include <sys/types.h>

#include <span>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"

namespace unisono::launcher {

/// A process of the job that is not one of its ranks: something a rank has started and left behind.
struct Leftover {
  pid_t pid;
  base::FileDescriptor pidfd;  ///< readable when the process has ended

  void send(int signal) const noexcept;  ///< through the pidfd, so that nobody else can be hit
};

/// Every living process that belongs to one of the process groups, or whose environment carries UNISONO_JOB_ID=job_id (a process that made a
/// session of its own). Never by parent and child: what an unrelated process has adopted is not ours.
std::vector<Leftover> find_leftovers(std::string_view job_id, std::span<const pid_t> groups);

}  // namespace unisono::launcher
