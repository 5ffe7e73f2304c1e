#include <algorithm>
#include <array>
#include <numeric>
#include <thread>

#include "context/state.h"
#include "covers.h"
#include "group/group.h"
#include "world.h"

using namespace unisono;
using namespace conformance;
using namespace std::chrono_literals;

namespace {

std::vector<int> upwards(int n) {
  std::vector<int> ranks(static_cast<std::size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}
std::vector<int> downwards(int n) {
  auto ranks = upwards(n);
  std::reverse(ranks.begin(), ranks.end());
  return ranks;
}

// The order of the list is the order of the ranks.
WORLD_TEST(NewGroup, ANewGroupKeepsTheCallersOrder) {
  COVERS("T-37", "I-37", "TS-05", "Q-06", "K-13", "C-08", "C-07", "TS-07", "Q-05", "K-58");
  const int n = world_size();
  const auto group = new_group(downwards(n));
  ASSERT_TRUE(group);
  EXPECT_EQ(group->size(), n);
  EXPECT_EQ(group->rank(), n - 1 - rank());
  EXPECT_EQ(group->global_ranks(), downwards(n));
  EXPECT_EQ(group->global_rank(0), n - 1);
  EXPECT_EQ(group->rank_of(GlobalRank{0}), n - 1);
  for (int r = 0; r < n; ++r) EXPECT_TRUE(group->contains(GlobalRank{r}));
  EXPECT_FALSE(group->contains(GlobalRank{n}));
  EXPECT_THROW(static_cast<void>(group->global_rank(n)), InvalidArgument);
  EXPECT_EQ(all_gather(rank(), *group), downwards(n));
  // Roots are ranks of the group; GlobalRank is translated.
  EXPECT_EQ(broadcast(rank(), 0, *group), n - 1);
  EXPECT_EQ(broadcast(rank(), GlobalRank{0}, *group), 0);
}

// Only members call; nobody else has it, so nobody else can call it.
WORLD_TEST_IN(Worlds{.at_least = 3}, NewGroup, OnlyMembersNeedToCall) {
  COVERS("Q-07", "C-09", "C-32", "K-69", "I-37", "TS-03");
  if (on_an_engine()) COVERS("B-22");
  if (rank() == 1 || rank() == 2) {
    const auto pair = new_group({2, 1});
    ASSERT_TRUE(pair);
    EXPECT_EQ(all_reduce(10 * rank(), ReduceOp::sum, *pair), 30);
    EXPECT_EQ(pair->rank(), rank() == 2 ? 0 : 1);
    auto x = values<float>(70000, pair->rank());
    all_reduce(x, ReduceOp::sum, *pair);
    EXPECT_EQ(difference(x, sums<float>(70000, 2)), "");
  } else if (rank() == 0) {
    EXPECT_FALSE(new_group({2, 1}));  // and whoever calls nevertheless does not wait
  }
}

WORLD_TEST(NewGroup, NewGroupRefusesWhatIsNoGroup) {
  COVERS("T-37", "K-13");
  EXPECT_THROW(static_cast<void>(new_group({})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(new_group({0, world_size()})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(new_group({-1})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(new_group({0, 0})), InvalidArgument);
}

// Without a list it is everybody, in the order of the world.
WORLD_TEST(NewGroup, ANewGroupMayHaveEverybody) {
  COVERS("T-37");
  const ProcessGroup all = new_group();
  EXPECT_EQ(all.global_ranks(), upwards(world_size()));
  EXPECT_NE(all, world());
  EXPECT_EQ(all_gather(10 * rank(), all), all_gather(10 * rank()));
}

WORLD_TEST(NewGroup, ANewGroupHasATimeoutOfItsOwn) {
  COVERS("TS-17");
  const auto timeout = [](const ProcessGroup& group) { return group.implementation()->facts().timeout(); };
  EXPECT_EQ(timeout(new_group({.timeout = 70s})), 70s);
  EXPECT_EQ(timeout(*new_group(downwards(world_size()), {.timeout = 80s})), 80s);
  EXPECT_EQ(timeout(*split_group(world(), 0, 0, {.timeout = 90s})), 90s);
  EXPECT_EQ(timeout(new_group()), timeout(world()));
  EXPECT_THROW(static_cast<void>(new_group({.timeout = -1s})), InvalidArgument);
  EXPECT_EQ(timeout(*new_group({rank()}, {.timeout = 0s})), 0s);
}

WORLD_TEST(NewGroup, ANewGroupHasABackendOfItsOwn) {
  COVERS("I-36", "TS-17");
  EXPECT_THROW(static_cast<void>(new_group({.backend = "no_such"})), InvalidArgument);
  EXPECT_THROW(static_cast<void>(split_group(world(), 0, 0, {.backend = "no_such"})), InvalidArgument);
  const auto native = [] { return new_group({.backend = "native"}); };
  if (presents_hosts()) {
    EXPECT_THROW(static_cast<void>(native()), BackendUnavailable);
  } else {
    const ProcessGroup group = native();
    EXPECT_EQ(group.backend(), world_size() == 1 ? "serial" : "native");
    EXPECT_EQ(all_reduce(1, ReduceOp::sum, group), world_size());
  }
  if (world_size() == 1) return;
  const auto tcp = [] { return new_group({.backend = "tcp"}); };
  if (!launched()) {
    EXPECT_THROW(static_cast<void>(tcp()), Unsupported);
  } else if (world().backend() == "tcp") {
    EXPECT_EQ(tcp().backend(), "tcp");
  } else if (!presents_hosts()) {
    EXPECT_THROW(static_cast<void>(tcp()), BackendUnavailable);
  }
  expect_usable();
}

// All members learn of it, whoever differs.
MANY_TEST(NewGroup, MembersAskForOneBackend) {
  COVERS("I-36", "TS-17");
  GroupOptions options;
  if (rank() == world_size() - 1) options.backend = "native";
  const auto error = thrown_by<InvalidArgument>([&] { static_cast<void>(new_group(options)); });
  EXPECT_NE(std::string(error.what()).find("asks for backend"), std::string::npos) << error.what();
  expect_usable(new_group());
}

// A program may form groups for as long as it runs.
WORLD_TEST(NewGroup, ANewGroupIsForgottenWhenItIsOver) {
  const auto& groups = context::current().groups;
  barrier(new_group());
  const std::size_t before = groups.known();
  for (int again = 0; again < 8; ++again) barrier(new_group());
  EXPECT_LT(groups.known(), before + 4);
}

// A single member, overlapping groups, and groups of the same list one after the other.
WORLD_TEST(NewGroup, GroupsMayHaveOneMemberAndOverlapAndComeAgain) {
  COVERS("W-06");
  const int n = world_size();
  const auto own = new_group({rank()});
  ASSERT_TRUE(own);
  EXPECT_EQ(own->size(), 1);
  EXPECT_EQ(all_reduce(rank() + 5, ReduceOp::sum, *own), rank() + 5);
  for (int again = 0; again < 3; ++again) {
    const auto everybody = new_group(upwards(n));
    std::vector<int> but_the_last = upwards(n);
    if (n > 1) but_the_last.pop_back();
    const auto others = new_group(but_the_last);
    EXPECT_EQ(others.has_value(), n == 1 || rank() < n - 1);
    EXPECT_EQ(all_reduce(1, ReduceOp::sum, *everybody), n);
    if (others) {
      EXPECT_EQ(all_reduce(1, ReduceOp::sum, *others), std::max(n - 1, 1));
    }
    EXPECT_EQ(all_reduce(2, ReduceOp::sum), 2 * n);
  }
}

// Every operation on a group, here on two disjoint halves at the same time.
WORLD_TEST(SplitGroup, EveryOperationWorksOnHalves) {
  COVERS("C-18", "TS-20", "K-78");
  const auto half = split_group(world(), rank() % 2, -rank());
  ASSERT_TRUE(half);
  const int m = half->size();
  const int me = half->rank();
  EXPECT_EQ(m, (world_size() + 1 - rank() % 2) / 2);
  for (int r = 1; r < m; ++r) EXPECT_GT(half->global_rank(r - 1), half->global_rank(r));  // by key: from the last to the first
  const auto count = static_cast<std::size_t>(m);
  auto x = values<int>(1001, me);
  all_reduce(x, ReduceOp::sum, *half);
  EXPECT_EQ(difference(x, sums<int>(1001, m)), "");
  reduce(x, m - 1, ReduceOp::max, *half);
  broadcast(x, 0, *half);
  std::vector<int> all(count);
  all_gather(std::vector<int>{me}, all, *half);
  EXPECT_EQ(all, upwards(m));
  std::vector<int> collected(me == 0 ? count : 0);
  gather(std::vector<int>{me + 7}, collected, 0, *half);
  std::vector<int> share(1);
  scatter(collected, share, 0, *half);
  EXPECT_EQ(share[0], me + 7);
  std::vector<int> sum(1);
  reduce_scatter(all, sum, ReduceOp::sum, *half);
  EXPECT_EQ(sum[0], m * me);
  std::vector<int> exchanged(count);
  all_to_all(std::vector<int>(count, me), exchanged, *half);
  EXPECT_EQ(exchanged, upwards(m));
  EXPECT_EQ(scan(1, ReduceOp::sum, *half), me + 1);
  barrier(*half);
  if (m > 1) {
    std::vector<int> from(1);
    send_recv(std::vector<int>{me}, (me + 1) % m, from, (me + m - 1) % m, *half);
    EXPECT_EQ(from[0], (me + m - 1) % m);
  }
}

WORLD_TEST(SplitGroup, ASplitMayLeaveRanksOutAndBeOfAGroup) {
  const int n = world_size();
  const auto some = split_group(world(), rank() == 0 ? -1 : 4);
  EXPECT_EQ(some.has_value(), rank() != 0);
  if (!some) return;
  EXPECT_EQ(some->size(), n - 1);
  const auto pairs = split_group(*some, some->rank() / 2);
  ASSERT_TRUE(pairs);
  EXPECT_EQ(all_reduce(rank(), ReduceOp::min, *pairs), 1 + some->rank() / 2 * 2);
}

WORLD_TEST(LocalGroup, TheLocalGroupIsTheRanksOfThisHost) {
  const ProcessGroup local = local_group();
  EXPECT_EQ(local.size(), nproc_per_node());
  EXPECT_EQ(local.rank(), local_rank());
  EXPECT_EQ(all_reduce(1, ReduceOp::sum, local), local.size());
  EXPECT_EQ(local, local_group());
}

// Equal parts of consecutive ranks.
WORLD_TEST(SplitGroup, EqualPartsHaveConsecutiveRanks) {
  COVERS("TS-18");
  const int n = world_size();
  for (int each = 1; each <= n; ++each) {
    const auto mine = split_group(world(), rank() / each);
    ASSERT_TRUE(mine);
    std::vector<int> expected;
    for (int r = rank() / each * each; r < std::min(rank() / each * each + each, n); ++r) expected.push_back(r);
    EXPECT_EQ(mine->global_ranks(), expected);
    EXPECT_EQ(all_gather(rank(), *mine), expected);
  }
}

// Disjoint lists, each made by its own ranks at the same time.
WORLD_TEST_IN(Worlds{.at_least = 3}, NewGroup, EveryListOfADivisionMakesAGroup) {
  COVERS("TS-19");
  const int n = world_size();
  std::vector<int> ends{n - 1, 0}, others;
  for (int r = n - 2; r > 0; --r) others.push_back(r);
  const std::vector<int>& own = rank() == 0 || rank() == n - 1 ? ends : others;
  const auto mine = new_group(own);
  ASSERT_TRUE(mine);
  EXPECT_EQ(all_gather(rank(), *mine), own);
  EXPECT_FALSE(new_group(&own == &ends ? others : ends));
}

// Ranks of the group or of the world, and tags, tell messages apart that are under way between the same two processes.
MANY_TEST(Groups, GroupsCarryMessagesOfTheirOwn) {
  COVERS("TS-06", "K-09");
  const int n = world_size();
  const auto turned = new_group(downwards(n));
  const int me = turned->rank(), next = (me + 1) % n, previous = (me + n - 1) % n;
  const int to = turned->global_rank(next), from = turned->global_rank(previous);
  send(std::array{rank(), 1}, next, *turned, {.tag = 5});
  send(std::array{rank(), 2}, GlobalRank{to}, *turned, {.tag = 6});
  send(std::array{rank(), 3}, to, world(), {.tag = 5});
  const auto take = [](int source, const ProcessGroup& group, int tag) {
    std::array<int, 2> x{};
    EXPECT_EQ(recv(x, source, group, {.tag = tag}), source);
    return x;
  };
  EXPECT_EQ(take(from, world(), 5), (std::array{from, 3}));
  EXPECT_EQ(take(previous, *turned, 6), (std::array{from, 2}));
  EXPECT_EQ(take(previous, *turned, 5), (std::array{from, 1}));
}

// Rule 9: calls on different groups run side by side, from several threads and in whatever order.
MANY_TEST(Groups, GroupsWorkSideBySide) {
  const auto a = new_group(upwards(world_size()));
  const auto b = new_group(downwards(world_size()));
  std::vector<long> on_a(5000, rank()), on_b(5000, 2 * rank());
  Work first = rank() % 2 == 0 ? all_reduce_async(on_a, ReduceOp::sum, *a) : all_reduce_async(on_b, ReduceOp::sum, *b);
  Work second = rank() % 2 == 0 ? all_reduce_async(on_b, ReduceOp::sum, *b) : all_reduce_async(on_a, ReduceOp::sum, *a);
  second.wait();
  first.wait();
  const long sum = static_cast<long>(world_size()) * (world_size() - 1) / 2;
  EXPECT_EQ(on_a, std::vector<long>(5000, sum));
  EXPECT_EQ(on_b, std::vector<long>(5000, 2 * sum));

  long from_thread = 0;
  std::thread other([&] {
    for (int i = 0; i < 50; ++i) from_thread = all_reduce(static_cast<long>(i), ReduceOp::sum, *b);
  });
  long from_here = 0;
  for (int i = 0; i < 50; ++i) from_here = all_reduce(static_cast<long>(2 * i), ReduceOp::sum, *a);
  other.join();
  EXPECT_EQ(from_thread, 49L * world_size());
  EXPECT_EQ(from_here, 98L * world_size());
}

// A group's failure is its own.
MANY_TEST(Groups, GroupsFailAlone) {
  auto group = new_group(upwards(world_size()));
  barrier(*group);
  if (rank() == 0) group->abort("enough");
  if (rank() != 0) {
    EXPECT_EQ(thrown_by<PeerFailed>([&] {
                for (;;) barrier(*group);
              }).culprit(),
              0);
  }
  expect_usable();
}

// Rule 7: what is left after a failure goes on.
TEST(ShrinkGroup, AShrunkGroupHasThoseThatAreLeft) {
  COVERS("TS-21", "Q-30");
  if (launched()) GTEST_SKIP() << "ends the world: for ranks that are threads";
  for (const int n : {2, 3, 5}) {
    run_threads(n, [n] {
      if (rank() == n / 2) return;  // leaves
      EXPECT_EQ(thrown_by<PeerFailed>([] { barrier(); }).cause(), PeerFailed::disconnected);
      const auto survivors = shrink_group(world());
      ASSERT_TRUE(survivors);
      EXPECT_EQ(survivors->size(), n - 1);
      EXPECT_FALSE(survivors->contains(GlobalRank{n / 2}));
      EXPECT_EQ(all_reduce(1, ReduceOp::sum, *survivors), n - 1);
      EXPECT_THROW(barrier(), PeerFailed);  // the old one stays what it is
    });
  }
}

TEST(ShrinkGroup, AGroupShrinksTwiceAndWhenItIsSound) {
  if (launched()) GTEST_SKIP() << "ends the world: for ranks that are threads";
  run_threads(4, [] {
    EXPECT_THROW(static_cast<void>(shrink_group(world())), InvalidArgument);
    barrier();
    if (rank() == 3) return;
    EXPECT_THROW(barrier(), PeerFailed);
    const auto three = shrink_group(world());
    ASSERT_TRUE(three);
    if (rank() == 0) return;
    EXPECT_THROW(for (;;) barrier(*three), PeerFailed);
    const auto two = shrink_group(*three);
    ASSERT_TRUE(two);
    EXPECT_EQ(two->global_ranks(), (std::vector<int>{1, 2}));
    EXPECT_EQ(all_reduce(rank(), ReduceOp::sum, *two), 3);
  });
}

}  // namespace
