#include "transport/tcp/watch_tree.h"

#include <algorithm>
#include <cstddef>

namespace unisono::transport {

WatchTree::WatchTree(const std::vector<int>& hosts) : parents_(hosts.size(), -1), children_(hosts.size()) {
  int host_count = 0;
  for (const int host : hosts) host_count = std::max(host_count, host + 1);
  std::vector<std::vector<int>> members(static_cast<std::size_t>(host_count));
  for (std::size_t r = 0; r < hosts.size(); ++r) members[static_cast<std::size_t>(hosts[r])].push_back(static_cast<int>(r));
  // By their first ranks, so that every parent has a lower rank than its children.
  std::erase_if(members, [](const auto& ranks) { return ranks.empty(); });
  std::ranges::sort(members, {}, [](const auto& ranks) { return ranks.front(); });
  const auto hang = [&](int child, int parent) {
    parents_[static_cast<std::size_t>(child)] = parent;
    children_[static_cast<std::size_t>(parent)].push_back(child);
  };
  for (std::size_t h = 0; h < members.size(); ++h) {
    if (h > 0) hang(members[h].front(), members[(h - 1) / arity].front());
    for (std::size_t i = 1; i < members[h].size(); ++i) hang(members[h][i], members[h][(i - 1) / arity]);
  }
}

int WatchTree::parent_among(int rank, const IsGone& is_gone) const {
  for (int above = parent(rank); above >= 0; above = parent(above)) {
    if (!is_gone(above)) return above;
  }
  for (int lowest = 0; lowest < size(); ++lowest) {
    if (lowest == rank) return -1;
    if (!is_gone(lowest)) return lowest;
  }
  return -1;
}

std::vector<int> WatchTree::orphans_of(int rank, const IsGone& is_gone) const {
  std::vector<int> orphans;
  for (const int child : children(rank)) {
    if (!is_gone(child)) {
      orphans.push_back(child);
      continue;
    }
    const std::vector<int> below = orphans_of(child, is_gone);
    orphans.insert(orphans.end(), below.begin(), below.end());
  }
  return orphans;
}

}  // namespace unisono::transport
