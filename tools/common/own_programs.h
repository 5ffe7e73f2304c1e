#pragma once

#include <string>

// The programs of the command itself: `unisono` in bin/, and the others in libexec/unisono/ of the same prefix, which it starts.
namespace unisono::tools {

/// Returns the path of `unisono`, from within it and from within the others.
std::string path_of_command();

/// Returns the path of a program in libexec/unisono/; empty where it is missing, or where somebody else could have put it there.
std::string path_of_helper(const std::string& name);

}  // namespace unisono::tools
