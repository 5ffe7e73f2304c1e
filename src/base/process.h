#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/file_descriptor.h"

namespace unisono::base {

/// Returns the fields after the name in /proc/<pid>/stat: the state, then numbers. Empty if the process is gone.
std::string stat_after_name(pid_t pid);

/// Returns a number that stands for the program that a process runs: another one comes with every exec, also of the same program, since the kernel
/// places its memory anew. `stat`: what stat_after_name() returns. 0: the kernel does not say, as of a process of another user's.
std::uint64_t program_of(const std::string& stat);

/// Returns a number that tells this process from every other one that this kernel has run lately under the same process number. It consists of the
/// PID namespace and the start time. 0 where /proc does not say.
std::int64_t own_life();
/// Returns that number of another process of this PID namespace; 0 as well where there is none.
std::int64_t life_of(pid_t pid);
/// Returns true where it is certain that the process with this number and `life` has ended. The caller knows that it ran under this kernel.
bool has_ended(pid_t pid, std::int64_t life);

/// Returns true where `pid` is a descendant of `ancestor`: its child, or a child of one, as far as /proc says.
bool is_descendant(pid_t pid, pid_t ancestor);
/// Returns the name of a process as ps shows it; empty where there is none.
std::string name_of(pid_t pid);

/// Returns the number by which this process knows the one with this number and `life`, which may be in a PID namespace inside this one, as those of a
/// container are; -1: there is no such process. The caller knows that it ran under this kernel.
pid_t number_here(pid_t pid, std::int64_t life);

/// Returns a handle (pidfd) on a process, which becomes readable when the process ends. All callers that ask for one process share its handle while
/// any of them keeps it, so many groups take no more descriptors than one. Null, with errno, where there is none. Any thread may call it.
std::shared_ptr<const FileDescriptor> handle_on_process(pid_t pid);

}  // namespace unisono::base
