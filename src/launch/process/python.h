#pragma once

#include <string>
#include <vector>

#include "base/environment.h"

namespace unisono::launcher {

/// Returns the words that start a command whose first word may be Python's:
/// - "-m" and a module get Python in front;
/// - so does a file that ends with .py, lies in `folder` (empty: the current one) under that name, and cannot be run by itself: it may not be
///   executed, does not begin with "#!", or is not found along PATH.
/// All others are returned as they are. Throws StartFailed if there is no Python, and InvalidArgument for "-m" alone.
std::vector<std::string> with_python(std::vector<std::string> command, const std::string& folder, const base::Environment& environment);

/// Returns the Python of the environment: that of VIRTUAL_ENV; else that of the virtual environment in which `own_file` lies, this library or
/// command; else "python3", if there is one along PATH. Empty where there is none.
std::string find_python(const base::Environment& environment, const std::string& own_file);

}  // namespace unisono::launcher
