#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/file_descriptor.h"

namespace unisono::base {

/// What follows the name in /proc/<pid>/stat: the state, then numbers. Empty if the process is gone.
std::string stat_after_name(pid_t pid);

/// Tells this process from every other one that this kernel runs, or has run lately, under the same number: its namespace of process numbers and when
/// it was started. 0 where /proc does not say.
std::int64_t own_life();
/// True where it is certain that the process of this number which had that life has ended. The caller knows that it ran under this kernel.
bool has_ended(pid_t pid, std::int64_t life);

/// A handle (pidfd) on a process: readable once it has ended. Whoever asks for the same process shares one handle for as long as anybody keeps it, so
/// that many groups take no more descriptors than one. Null, with errno, where there is none. Any thread.
std::shared_ptr<const FileDescriptor> handle_on_process(pid_t pid);

}  // namespace unisono::base
