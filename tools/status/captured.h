#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace unisono::tools {

struct Captured {
  std::string printed;  ///< to standard output and standard error
  bool in_time = false;
};

/// Runs a program and returns what it prints. One that takes longer is killed, with what it has started.
Captured capture(const std::vector<std::string>& words, std::chrono::milliseconds at_most);

}  // namespace unisono::tools
