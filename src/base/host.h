#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace unisono::base
