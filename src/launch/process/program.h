#pragma once

#include <string>
#include <string_view>

#include "base/environment.h"
#include "unisono/error.h"

namespace unisono::launcher {

/// The exit codes of a shell. A process ended by a signal has the last one plus the signal's number.
inline constexpr int exit_not_executable = 126, exit_not_found = 127, exit_signaled = 128;

/// A program or a process could not be started at all. `exit_code` is the code a shell would return, or 1.
class StartFailed : public LaunchFailed {
 public:
  StartFailed(std::string_view message, int exit_code) : LaunchFailed(message), exit_code_(exit_code) {}
  int exit_code() const noexcept { return exit_code_; }

 private:
  int exit_code_;
};

/// Returns the file of a program: `name` itself where it has a slash, else found along PATH. Throws StartFailed where there is none or it may not be
/// run.
std::string find_program(const std::string& name, const base::Environment& environment);

/// Returns a file of our own in libexec/unisono/, beside the running library or command; empty where it is missing.
std::string find_helper(std::string_view name);

/// Returns the text of an errno, such as "no such file or directory".
std::string error_text(int error);

}  // namespace unisono::launcher
