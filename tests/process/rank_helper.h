#pragma once

#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"

namespace unisono::testing {

inline std::string variable(const char* name) { return base::Environment::process().get(name).value_or(""); }
inline int rank() { return base::Environment::process().get_int("RANK").value_or(-1); }

/// Writes a line at once: the lines that tests wait for arrive whole.
inline void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) ::_exit(90);
}

/// Runs a mode in which the rank joins the job by the library. Returns the exit code; empty where it is no such mode.
std::optional<int> run_job_of_library(const std::string& mode, const std::vector<std::string>& words);

}  // namespace unisono::testing
