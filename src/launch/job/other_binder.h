#pragma once

#include <string>
#include <vector>

#include "base/environment.h"

namespace unisono::launcher {

/// Returns who places the processes of such a command by itself: "taskset", if its words, or the shell script that they run, name such a program;
/// a variable that names processors for OpenMP's threads. Empty: nobody. `program`: the file of the command.
std::string other_binder(const std::string& program, const std::vector<std::string>& command, const base::Environment& environment);

}  // namespace unisono::launcher
