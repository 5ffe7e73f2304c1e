#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"

namespace unisono::base {

/// Returns a sentence for each name that begins with UNISONO_ and that nothing reads, and for each value without meaning, and for those that
/// are ignored. Names of backends are not checked.
std::vector<std::string> odd_variables(const Environment& environment);

/// Splits a list of folders at its colons and leaves out empty items.
std::vector<std::string> folders_of(std::string_view text);
/// Returns a sentence about a list of folders that is not in order; empty: it is.
std::string odd_folders(std::string_view variable, std::string_view text);

}  // namespace unisono::base
