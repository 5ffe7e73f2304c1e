// The tree by which ranks watch each other: few neighbours, and no part of it is cut off, whoever is gone.
#include "transport/tcp/relay.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace unisono::testing {
namespace {

using transport::WatchTree;

std::vector<int> hosts_of(int ranks, int ranks_per_host) {
  std::vector<int> hosts;
  for (int r = 0; r < ranks; ++r) hosts.push_back(r / ranks_per_host);
  return hosts;
}

TEST(WatchTree, EveryRankHasOneLowerParentAndFewChildren) {
  for (const int ranks : {1, 2, 9, 10, 73, 74, 1000}) {
    for (const int ranks_per_host : {1, 3, 8, 100}) {
      const auto hosts = hosts_of(ranks, ranks_per_host);
      const WatchTree tree(hosts);
      std::vector<int> as_child(static_cast<std::size_t>(ranks));
      for (int r = 0; r < ranks; ++r) {
        EXPECT_LE(tree.children(r).size(), 2U * WatchTree::arity);
        for (const int child : tree.children(r)) {
          EXPECT_EQ(tree.parent(child), r);
          ++as_child[static_cast<std::size_t>(child)];
        }
        if (r == 0) {
          EXPECT_EQ(tree.parent(r), -1);
          continue;
        }
        EXPECT_GE(tree.parent(r), 0);
        EXPECT_LT(tree.parent(r), r);
        const auto first = std::ranges::find(hosts, hosts[static_cast<std::size_t>(r)]) - hosts.begin();
        if (first != r) {  // only the first rank of a host hangs on another host
          EXPECT_EQ(hosts[static_cast<std::size_t>(tree.parent(r))], hosts[static_cast<std::size_t>(r)]);
        }
      }
      EXPECT_EQ(std::accumulate(as_child.begin(), as_child.end(), 0), ranks - 1);
    }
  }
}

TEST(WatchTree, HostsMayBeNumberedInAnyOrderAndShareOutTheirRanksInTurns) {
  const WatchTree tree({2, 0, 2, 1, 0, 1});
  EXPECT_TRUE(std::ranges::equal(tree.children(0), std::vector<int>{2, 1, 3}));
  EXPECT_EQ(tree.parent(4), 1);
  EXPECT_EQ(tree.parent(5), 3);
}

TEST(WatchTree, RanksThatAreLeftAreConnectedWhoeverIsGone) {
  std::mt19937 random(20250101);
  for (int round = 0; round < 300; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 150);
    std::vector<int> hosts;
    const int hosts_at_most = 1 + static_cast<int>(random() % 40);
    for (int r = 0; r < ranks; ++r) hosts.push_back(static_cast<int>(random() % static_cast<unsigned>(hosts_at_most)));
    const WatchTree tree(hosts);
    std::set<int> gone;
    for (int i = static_cast<int>(random() % static_cast<unsigned>(ranks)); i > 0; --i)
      gone.insert(static_cast<int>(random() % static_cast<unsigned>(ranks)));
    const auto is_gone = [&](int rank) { return gone.contains(rank); };
    std::vector<int> part(static_cast<std::size_t>(ranks));
    std::iota(part.begin(), part.end(), 0);
    const auto root = [&](int rank) {
      while (part[static_cast<std::size_t>(rank)] != rank) rank = part[static_cast<std::size_t>(rank)];
      return rank;
    };
    int tops = 0;
    for (int r = 0; r < ranks; ++r) {
      if (is_gone(r)) continue;
      const int parent = tree.parent_among(r, is_gone);
      if (parent < 0) {
        ++tops;
        continue;
      }
      EXPECT_FALSE(is_gone(parent));
      part[static_cast<std::size_t>(root(r))] = root(parent);
    }
    std::set<int> parts;
    for (int r = 0; r < ranks; ++r) {
      if (!is_gone(r)) parts.insert(root(r));
    }
    EXPECT_LE(parts.size(), 1U) << "of " << ranks << " ranks, without " << gone.size();
    EXPECT_EQ(tops, parts.empty() ? 0 : 1);
  }
}

TEST(WatchTree, OrphansOfARankAreThoseBelowItThatAreLeft) {
  const WatchTree tree(hosts_of(100, 1));
  EXPECT_TRUE(std::ranges::equal(tree.orphans_of(1, [](int) { return false; }), tree.children(1)));
  const auto orphans = tree.orphans_of(1, [](int rank) { return rank == 1 || rank == 9; });
  EXPECT_EQ(std::ranges::count(orphans, 9), 0);
  for (const int below : tree.children(9)) EXPECT_EQ(std::ranges::count(orphans, below), 1);
  for (const int orphan : orphans) EXPECT_EQ(tree.parent_among(orphan, [](int rank) { return rank == 1 || rank == 9; }), 0);
}

}  // namespace
}  // namespace unisono::testing
