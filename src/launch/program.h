#pragma once

#include <string>
#include <string_view>

#include "base/environment.h"
#include "unisono/error.h"

namespace unisono::launcher {

/// A program or a process could not be started at all. `exit_code` is what a shell would answer: 127 not found, 126 found but not executable.
class StartFailed : public LaunchFailed {
 public:
  StartFailed(std::string_view message, int exit_code) : LaunchFailed(message), exit_code_(exit_code) {}
  int exit_code() const noexcept { return exit_code_; }

 private:
  int exit_code_;
};

/// The file that `name` means: itself where it has a slash, else looked up along PATH. StartFailed where there is none or it may not be run.
std::string find_program(const std::string& name, const base::Environment& environment);

/// A file of our own that stands in libexec/unisono/, beside the library or the command that runs; empty where it is missing.
std::string find_helper(std::string_view name);

/// "no such file or directory" and the like, of an errno.
std::string error_text(int error);

}  // namespace unisono::launcher
