#pragma once

#include <string>
#include <vector>

namespace unisono::base {

/// Names ascending rank numbers: "rank 3", "ranks 0, 2-4".
std::string name_ranks(const std::vector<int>& ranks);
/// Names a rank of a group: "rank 1", or "rank 1 (3 in the world)" where it has another number there. A negative number is not known.
std::string name_rank(int rank, int world_rank);

}  // namespace unisono::base
