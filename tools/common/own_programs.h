#pragma once

#include <string>

// The programs of the command itself: `unisono` in bin/, and the others in libexec/unisono/ of the same prefix, which it starts.
namespace unisono::tools {

/// Returns the path of `unisono`, from within it and from within the others.
std::string path_of_command();

/// A program in libexec/unisono/.
struct Helper {
  std::string path = {};       ///< empty: it cannot be started
  std::string objection = {};  ///< why it is not started although it is there: somebody else could have put it there
};
Helper helper(const std::string& name);

}  // namespace unisono::tools
