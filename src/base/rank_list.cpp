#include "base/rank_list.h"

namespace unisono::base {

std::string name_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]);
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string name_rank(int rank, int world_rank) {
  std::string text = "rank " + std::to_string(rank);
  if (world_rank >= 0 && world_rank != rank) text += " (" + std::to_string(world_rank) + " in the world)";
  return text;
}

}  // namespace unisono::base
