#pragma once

#include <string>
#include <vector>

namespace unisono::ground {

/// "rank 3", "ranks 0, 2-4", of ascending numbers.
std::string name_ranks(const std::vector<int>& ranks);

}  // namespace unisono::ground
