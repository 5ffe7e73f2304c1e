#pragma once

#include <string>
#include <vector>

namespace unisono::base {

/// Names ascending rank numbers: "rank 3", "ranks 0, 2-4".
std::string name_ranks(const std::vector<int>& ranks);

}  // namespace unisono::base
