#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "status/jobs.h"

namespace unisono::tools {

/// What the main thread of a rank's process does.
struct Stack {
  int rank = -1;
  std::string tool;                 ///< that has shown it: "gdb"
  std::vector<std::string> frames;  ///< "#0  pause () from /lib/x86_64-linux-gnu/libc.so.6"
  std::vector<std::string> python;  ///< "step (train.py:12)"
  std::string problem;              ///< why there are no frames
};

/// Looks into the processes of the ranks that others wait for, which stops each of them for a moment: with eu-stack, or gdb, and py-spy.
std::vector<Stack> stacks_of_late_ranks(const JobFacts& job);

/// Returns the frames in what eu-stack or gdb has printed of one thread, without addresses.
std::vector<std::string> native_frames(std::string_view printed);
/// Returns the frames of the main thread in what `py-spy dump` has printed.
std::vector<std::string> python_frames(std::string_view printed);

}  // namespace unisono::tools
