#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unisono::base {

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
