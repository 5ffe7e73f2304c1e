#pragma once

#include <unistd.h>

#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "unisono/unisono.h"

// What the programs that the tests of spawn, launch and Parallel start have in common.

namespace unisono::testing {

using Words = std::vector<std::string>;
/// What a program does, by its first argument.
using Modes = std::map<std::string, int (*)(const Words&)>;

/// Writes a line at once: lines of several processes stay whole.
inline void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) ::_exit(90);
}

/// "rank 2 of 4, local 0 0, sum 6": what a rank says when everybody is there.
inline std::string account(int local_rank) {
  return "rank " + std::to_string(rank()) + " of " + std::to_string(world_size()) + ", local " + std::to_string(local_rank) + " " +
         std::to_string(unisono::local_rank()) + ", sum " + std::to_string(all_reduce(rank()));
}

/// Says which error the call throws.
inline int refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    const char* type = dynamic_cast<const AlreadyInitialized*>(&error) != nullptr ? "AlreadyInitialized"
                       : dynamic_cast<const InvalidArgument*>(&error) != nullptr  ? "InvalidArgument"
                       : dynamic_cast<const NotInitialized*>(&error) != nullptr   ? "NotInitialized"
                       : dynamic_cast<const LaunchFailed*>(&error) != nullptr     ? "LaunchFailed"
                                                                                  : "another Error";
    say(std::string(type) + " " + error.what());
    return 0;
  }
  say("not refused");
  return 1;
}

/// The program: 91 without such a mode, 92 after an exception.
inline int run_mode(const Modes& modes, int argc, char** argv) {
  try {
    const Words words{argv + 1, argv + argc};
    const auto mode = modes.find(words.at(0));
    return mode == modes.end() ? 91 : mode->second(words);
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 92;
  }
}

}  // namespace unisono::testing
