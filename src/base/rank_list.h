#pragma once

#include <string>
#include <vector>

namespace unisono::base {

/// "rank 3", "ranks 0, 2-4", of ascending numbers.
std::string name_ranks(const std::vector<int>& ranks);

}  // namespace unisono::base
