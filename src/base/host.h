#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"

namespace unisono::base {

/// The system's name for this host.
std::string host_name();
/// Identifies the processes that can share memory and see each other: those under one running kernel in the same network and PID namespaces, which
/// containers may or may not share. It changes with a reboot. At most 64 bytes.
const std::string& machine_id();
/// Returns the part of a machine_id() that all processes under one running kernel have: they share its processors.
std::string_view kernel_of(std::string_view machine);
/// Returns the part that all processes in one network namespace have: they share its loopback.
std::string_view network_of(std::string_view machine);
/// Returns the number of this process's namespace of a kind ("net", "pid"); 0 where /proc does not say.
std::uint64_t namespace_number(const std::string& kind);

/// A call of the system without which jobs do not run, and that this system refuses: it is too old, or a filter (seccomp) keeps the call from the
/// process.
struct RefusedCall {
  std::string_view name;  ///< "pidfd_open"
  std::string_view use;   ///< what unisono does by it: "sees that a process has ended"
  int error = 0;
  std::string text() const;  ///< "this system refuses pidfd_open (Operation not permitted), by which unisono sees that a process has ended"
};

/// Tries the essential calls. Processes of the launcher need all of them.
std::vector<RefusedCall> refused_calls();

/// Returns what to do where a call has failed with that errno; empty where the errno means something else than a refusal.
std::string remedy_of_refusal(std::string_view call, int error);

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
