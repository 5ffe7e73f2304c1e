// Groups where hosts count: ranks that present themselves as processes of several hosts.
#include <filesystem>
#include <numeric>
#include <set>

#include "covers.h"
#include "unisono/detail/switches.h"
#include "world.h"

using namespace unisono;
using namespace conformance;

namespace {

class PresentedHosts {
 public:
  explicit PresentedHosts(std::vector<std::string> names) { detail::set_presented_hosts(std::move(names)); }
  ~PresentedHosts() { detail::set_presented_hosts({}); }
  PresentedHosts(const PresentedHosts&) = delete;
  PresentedHosts& operator=(const PresentedHosts&) = delete;
};

/// Each rank's host is named by a letter; beside it stands the result that each rank must find, in rank order.
struct Layout {
  std::string row, hosts;
  std::vector<int> local_ranks, node_ranks, processes_per_node;
  int nodes;
};

std::vector<int> ranks_on(const std::string& hosts, char host) {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    if (hosts[r] == host) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

class Nodes : public testing::TestWithParam<Layout> {};

TEST_P(Nodes, NodesAreFoundExactly) {
  if (launched()) GTEST_SKIP() << "the ranks of this test are threads";
  const Layout& layout = GetParam();
  if (layout.row.starts_with("N0")) COVERS(("N-" + layout.row.substr(1)).c_str());
  COVERS("K-32", "K-66", "I-09", "I-10", "I-11", "I-12", "M-18", "M-19", "M-23", "M-24", "K-65", "Q-24", "B-06", "B-07", "W-11");
  std::vector<std::string> names;
  for (const char host : layout.hosts) names.emplace_back(1, host);
  const PresentedHosts presented(names);
  run_threads(static_cast<int>(layout.hosts.size()), [&](int r) {
    const auto i = static_cast<std::size_t>(r);
    EXPECT_EQ(local_rank(), layout.local_ranks[i]) << r;
    EXPECT_EQ(node_rank(), layout.node_ranks[i]) << r;
    EXPECT_EQ(nproc_per_node(), layout.processes_per_node[i]) << r;
    EXPECT_EQ(nnodes(), layout.nodes) << r;
    const ProcessGroup group = local_group();
    const auto neighbours = ranks_on(layout.hosts, layout.hosts[i]);
    EXPECT_EQ(group.global_ranks(), neighbours);
    EXPECT_EQ(group.rank(), local_rank());
    EXPECT_EQ(group.size(), nproc_per_node());
    EXPECT_EQ(all_gather(r, group), neighbours);
    EXPECT_EQ(all_reduce(1, ReduceOp::sum, group), nproc_per_node());
    EXPECT_EQ(local_group(), group);  // one group, however often it is asked for
    // The hosts' first ranks among themselves, as a program with two levels would have it.
    const auto leaders = split_group(world(), local_rank() == 0 ? 0 : -1);
    EXPECT_EQ(leaders.has_value(), local_rank() == 0);
    if (leaders) {
      EXPECT_EQ(leaders->size(), nnodes());
      EXPECT_EQ(leaders->rank(), node_rank());
      EXPECT_EQ(all_reduce(nproc_per_node(), ReduceOp::sum, *leaders), world_size());
    }
    barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Rows, Nodes,
                         testing::Values(Layout{"N01", "aabb", {0, 1, 0, 1}, {0, 0, 1, 1}, {2, 2, 2, 2}, 2},
                                         Layout{"N02", "aaab", {0, 1, 2, 0}, {0, 0, 0, 1}, {3, 3, 3, 1}, 2},
                                         Layout{"N03", "abab", {0, 0, 1, 1}, {0, 1, 0, 1}, {2, 2, 2, 2}, 2},
                                         Layout{"OneFirst", "abbb", {0, 0, 1, 2}, {0, 1, 1, 1}, {1, 3, 3, 3}, 2},
                                         Layout{"FiveOnThree", "aabbc", {0, 1, 0, 1, 0}, {0, 0, 1, 1, 2}, {2, 2, 2, 2, 1}, 3},
                                         Layout{"FiveMixed", "cabac", {0, 0, 0, 1, 1}, {0, 1, 2, 1, 0}, {2, 2, 1, 2, 2}, 3},
                                         Layout{"EachAlone", "abc", {0, 0, 0}, {0, 1, 2}, {1, 1, 1}, 3},
                                         Layout{"OneHost", "aaa", {0, 1, 2}, {0, 0, 0}, {3, 3, 3}, 1}),
                         [](const auto& one) { return one.param.row; });

// Every number of ranks, on one host and on several that have as many or differ: everybody finds what all the others say.
class Sizes : public testing::TestWithParam<std::string> {};

TEST_P(Sizes, WorldsHaveTheirSizes) {
  COVERS("W-01");
  if (launched()) GTEST_SKIP() << "the ranks of this test are threads";
  const std::string& hosts = GetParam();
  const auto n = hosts.size();
  const auto of_one = [](int owner, int reader) { return static_cast<float>(100 * owner + reader); };
  std::vector<std::string> names;
  for (const char host : hosts) names.emplace_back(1, host);
  const PresentedHosts presented(names);
  run_threads(static_cast<int>(n), [&](int r) {
    ASSERT_EQ(world_size(), static_cast<int>(n));
    EXPECT_EQ(rank(), r);
    EXPECT_EQ(nnodes(), static_cast<int>(std::set<char>(hosts.begin(), hosts.end()).size()));
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, slot_bytes}) {
      std::vector<float> x = values<float>(count, r);
      all_reduce(x);
      ASSERT_EQ(difference(x, sums<float>(count, world_size())), "") << count;
      std::vector<float> all(n * count), everybody;
      all_gather(values<float>(count, r), all);
      for (int other = 0; other < world_size(); ++other) {
        const auto block = values<float>(count, other);
        everybody.insert(everybody.end(), block.begin(), block.end());
      }
      ASSERT_EQ(difference(all, everybody), "") << count;
    }
    for (int root = 0; root < world_size(); ++root) EXPECT_EQ(broadcast(r == root ? of_one(root, 7) : -1.0F, root), of_one(root, 7));
    std::vector<float> sent(n), received(n), expected(n);
    for (int other = 0; other < world_size(); ++other) {
      sent[static_cast<std::size_t>(other)] = of_one(r, other);
      expected[static_cast<std::size_t>(other)] = of_one(other, r);
    }
    all_to_all(sent, received);
    EXPECT_EQ(received, expected);
    expect_usable(local_group());
    expect_usable();
  });
}

INSTANTIATE_TEST_SUITE_P(Rows, Sizes,
                         testing::Values("a", "aa", "aaa", "aaaa", "aaaaa", "aaaaaaa", "aaaaaaaa", "aaaaaaaaaaaaaaaa", "aabb", "aaab", "abbbc",
                                         "abababa", "aaaabbbb", "aabbccddaabbccdd"));

TEST(PresentedHosts, PresentedHostsMustBeAsManyAsTheRanks) {
  if (launched()) GTEST_SKIP() << "the ranks of this test are threads";
  const PresentedHosts presented({"a", "b"});
  EXPECT_THROW(run_threads(3, [] {}), InvalidArgument);
}

// Names of hosts count to their last letter, however long.
TEST(PresentedHosts, PresentedHostsMayHaveLongNames) {
  COVERS("K-33");
  if (launched()) GTEST_SKIP() << "the ranks of this test are threads";
  const std::string name(300, 'h');
  const PresentedHosts presented({name + "1", name + "2", name + "1"});
  run_threads(3, [](int r) {
    EXPECT_EQ(nnodes(), 2);
    EXPECT_EQ(node_rank(), r % 2);
    EXPECT_EQ(local_group().size(), r % 2 == 0 ? 2 : 1);
  });
}

// The sums that upstream tests hold the numbers to: local rank < processes per node, node rank < nodes, and over all hosts they make the world.
WORLD_TEST(Nodes, NumbersOfNodesFitTogether) {
  COVERS("I-07", "I-08", "I-09", "I-10", "I-11", "I-12");
  EXPECT_LT(local_rank(), nproc_per_node());
  EXPECT_LT(node_rank(), nnodes());
  EXPECT_EQ(local_group().size(), nproc_per_node());
  EXPECT_EQ(all_reduce(local_rank() == 0 ? nproc_per_node() : 0), world_size());
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

// A list makes a group only in new_group, and a group ends with its last handle: nothing is left of many.
WORLD_TEST(Groups, GroupsLeaveNothingBehind) {
  std::vector<int> everybody(static_cast<std::size_t>(world_size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  const auto once = [&] {
    const auto group = new_group(everybody);
    const ProcessGroup copy = *group;
    EXPECT_EQ(all_reduce(1, ReduceOp::sum, copy), world_size());
  };
  for (int i = 0; i < 3; ++i) once();
  barrier();
  const std::size_t before = open_descriptors();
  barrier();
  for (int i = 0; i < 20; ++i) once();
  barrier();
  if (launched() || !is_initialized()) {
    COVERS("K-25", "Q-07", "T-38");
    EXPECT_LE(open_descriptors(), before);  // threads share theirs with ranks that may still be at it
  }
}

// The ranks of a group, their order, and that every operation is of its members only.
WORLD_TEST_IN(Worlds{.at_least = 3}, Groups, GroupsAreOfTheirMembers) {
  COVERS("I-23", "I-28", "I-37");
  std::vector<int> listed;
  for (int r = world_size() - 1; r > 0; --r) listed.push_back(r);
  const auto group = new_group(listed);
  EXPECT_EQ(group.has_value(), rank() != 0);
  if (!group) return;
  EXPECT_EQ(group->global_ranks(), listed);
  EXPECT_EQ(group->rank_of(GlobalRank{0}), std::nullopt);
  EXPECT_FALSE(group->contains(GlobalRank{0}));
  EXPECT_TRUE(group->contains(GlobalRank{rank()}));
  EXPECT_EQ(group->rank_of(GlobalRank{rank()}), group->rank());
  EXPECT_EQ(all_gather(rank(), *group), listed);
  EXPECT_EQ(all_reduce(rank(), ReduceOp::sum, *group), world_size() * (world_size() - 1) / 2);
}

// The deadline of one call, and who is missing; the other groups go on.
WORLD_TEST_IN((Worlds{.at_least = 2, .at_most = 4}), Groups, GroupsHaveDeadlinesOfTheirOwn) {
  COVERS("K-48", "K-20");
  if (launched() && world_size() > 4) return;
  const auto pair = new_group({0, 1});
  if (rank() == 0) {
    const auto error = thrown_by<Timeout>([&] { barrier(*pair, {.timeout = std::chrono::milliseconds(60)}); });
    EXPECT_EQ(error.missing(), std::vector<int>{1});
    EXPECT_EQ(error.group(), pair->name());
  }
  expect_usable();
}

}  // namespace
