// spawn and launch: what the processes are, where they meet, and what they return. spawn_failure_test.cpp has their failures.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <numeric>
#include <set>

#include "covers.h"
#include "running_command.h"
#include "spawn_ranks.h"
#include "two_nodes.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

class SpawnOfRanks : public ::testing::TestWithParam<int> {};

TEST_P(SpawnOfRanks, EveryRankHasItsWorldAndItsResultComesBackInOrder) {
  COVERS("I-14", "I-15", "I-16", "C-26");
  const int n = GetParam();
  const auto accounts = spawn(ranks(n), account_of);
  ASSERT_EQ(accounts.size(), static_cast<std::size_t>(n));
  std::set<int> pids{::getpid()};
  for (int r = 0; r < n; ++r) {
    const Account& account = accounts[static_cast<std::size_t>(r)];
    EXPECT_EQ(account.rank, r);
    EXPECT_EQ(account.world_size, n);
    EXPECT_EQ(account.local_rank, r);
    EXPECT_EQ(account.given, r);
    EXPECT_EQ(account.sum, n * (n + 1) / 2);
    EXPECT_EQ(account.model, n == 1 ? "serial" : "native-dist");
    EXPECT_EQ(account.launcher, "unisono");
    ASSERT_EQ(account.halves.size(), static_cast<std::size_t>(r) + 1);
    EXPECT_EQ(account.halves.back(), r / 2.0 + r);
    pids.insert(account.pid);
  }
  EXPECT_EQ(pids.size(), static_cast<std::size_t>(n) + 1);
  EXPECT_FALSE(is_initialized());
}

INSTANTIATE_TEST_SUITE_P(Spawn, SpawnOfRanks, ::testing::Values(1, 2, 3, 4, 5, 7, 8));

TEST(Spawn, TheFunctionGetsItsLocalRankIfItTakesOne) {
  COVERS("C-14", "K-52");
  const auto with = spawn(
      ranks(3), [](int local_rank, int factor, const std::string& word) { return fmt::format("{}{}", word, factor * local_rank); }, 7,
      std::string("x"));
  EXPECT_EQ(with, (std::vector<std::string>{"x0", "x7", "x14"}));
  const auto without = spawn(
      ranks(3), [](int factor) { return factor + rank(); }, 10);
  EXPECT_EQ(without, (std::vector<int>{10, 11, 12}));
  const auto nothing = spawn(ranks(2), [] { return true; });
  EXPECT_EQ(nothing, (std::vector<bool>{true, true}));
  static_assert(std::is_void_v<decltype(spawn(ranks(1), [] {}))>);
  spawn(ranks(2), [](int local_rank) { static_cast<void>(all_reduce(local_rank)); });
}

TEST(Spawn, ArgumentsAndMemoryAreCopies) {
  std::vector<int> shared{1, 2, 3};
  int counter = 5;
  const auto sums = spawn(
      ranks(3),
      [&counter](std::vector<int>& x) {
        x[0] = 100 * rank();
        counter += rank();
        return std::accumulate(x.begin(), x.end(), counter);
      },
      shared);
  EXPECT_EQ(sums, (std::vector<int>{10, 111, 212}));
  EXPECT_EQ(shared, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(counter, 5);
}

// The world that counts is the one in which it is called, not the one in which it was made.
TEST(Spawn, WhatRunsOnOneRankOnlyMayBeMadeBefore) {
  COVERS("I-44");
  auto first = one_rank_only([] { return 10 + rank(); });
  auto first_of_all = one_rank_only([] { return 20 + rank(); }, {.with_barrier = true});
  const auto results = spawn(ranks(3), [&] { return std::pair(first(), first_of_all()); });
  EXPECT_EQ(results[0], std::pair(std::optional(10), std::optional(20)));
  for (const int r : {1, 2}) EXPECT_EQ(results[static_cast<std::size_t>(r)], std::pair(std::optional<int>(), std::optional<int>()));
}

// More than any pipe holds, from all ranks at once.
TEST(Spawn, ResultsMayHaveAnySize) {
  COVERS("C-26");
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{65'536}, std::size_t{65'537}, std::size_t{9'000'011}}) {
    const auto texts = spawn(ranks(3), [size](int local_rank) {
      std::string text(size, static_cast<char>('a' + local_rank));
      if (size > 1) text.back() = static_cast<char>('A' + local_rank);
      return text;
    });
    ASSERT_EQ(texts.size(), 3u);
    for (int r = 0; r < 3; ++r) {
      std::string expected(size, static_cast<char>('a' + r));
      if (size > 1) expected.back() = static_cast<char>('A' + r);
      EXPECT_TRUE(texts[static_cast<std::size_t>(r)] == expected) << size;
    }
  }
}

// A single node may meet elsewhere than through its launcher, if it is told to.
TEST(Spawn, SpawnMeetsWhereInitMethodSays) {
  COVERS("I-18");
  const TemporaryFolder folder;
  SpawnOptions options = ranks(3);
  options.init_method = "file://" + folder.path() + "/meeting";
  for (int again = 0; again < 2; ++again) {
    const auto accounts = spawn(options, account_of);
    ASSERT_EQ(accounts.size(), 3u);
    for (const Account& account : accounts) EXPECT_EQ(account.sum, 6);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  options.init_method = "env://";
  EXPECT_EQ(spawn(options, account_of).back().sum, 6);
}

// A job of one node needs no port at all.
TEST(Spawn, SpawnedRanksListenNowhere) {
  COVERS("Q-12");
  const auto inside = spawn(ranks(2), [] {
    barrier();
    const std::size_t listening = listening_sockets(::getpid()).size() + listening_sockets(::getppid()).size();
    barrier();
    return listening;
  });
  EXPECT_EQ(inside, (std::vector<std::size_t>{0, 0}));
}

// A backend that the program has registered goes with the fork.
TEST(Spawn, ABackendOfTheProgramsOwnCarriesSpawnedRanks) {
  COVERS("I-48");
  register_engine("borrowed", [](const EngineOptions& options) { return std::make_unique<Borrowed>(options); });
  const auto answers =
      spawn({.backend = "borrowed", .nproc_per_node = 3}, [] { return std::pair(backend().value_or("none"), all_reduce(rank() + 1)); });
  EXPECT_EQ(answers, (std::vector(3, std::pair(std::string("borrowed"), 6))));
}

// An engine is told of the group that is formed.
TEST(Spawn, ABackendOfTheProgramsOwnIsToldOfItsGroup) {
  static EngineOptions told;
  register_engine("curious", [](const EngineOptions& options) {
    told = options;
    return std::make_unique<Borrowed>(options);
  });
  const auto answers = spawn({.backend = "native", .nproc_per_node = 3}, [] {
    const auto group = new_group({2, 0}, {.backend = "curious", .timeout = std::chrono::seconds(70)});
    if (!group) return std::string("none");
    return fmt::format("{} {} {} {} {}", told.group_name == group->name(), told.rank == group->rank(), fmt::join(told.global_ranks, ","),
                       fmt::join(told.hosts, ","), told.timeout <= std::chrono::seconds(70) && told.timeout > std::chrono::seconds(10));
  });
  EXPECT_EQ(answers, (std::vector<std::string>{"true true 2,0 0,0 true", "none", "true true 2,0 0,0 true"}));
}

// ---- several nodes ---------------------------------------------------------------------------------------------

TEST(SpawnNodes, NodesMeetInAFile) {
  COVERS("I-15", "I-16", "I-18", "K-44");
  const TemporaryFolder folder;
  EXPECT_EQ(two_nodes("node", {"file://" + folder.path() + "/meeting"}), four_ranks);
}
TEST(SpawnNodes, NodesMeetAtATcpAddress) {
  COVERS("I-15", "I-16", "I-18", "K-44");
  EXPECT_EQ(two_nodes("node", {fmt::format("tcp://127.0.0.1:{}", free_port())}), four_ranks);
}
TEST(SpawnNodes, NodesMeetAtTheMasterAddress) {
  COVERS("I-17", "B-12");
  EXPECT_EQ(two_nodes("node", {"env", "127.0.0.1", std::to_string(free_port())}), four_ranks);
}
TEST(SpawnNodes, NodesMeetWhereTheEnvironmentSays) {
  COVERS("I-17", "C-13", "Q-12", "E-05", "E-06");
  EXPECT_EQ(two_nodes("node", {"env"}, {{"MASTER_ADDR", "localhost"}, {"MASTER_PORT", std::to_string(free_port())}}), four_ranks);
}
TEST(SpawnNodes, NodesAreMachinesToLaunch) {
  COVERS("V-01", "V-02", "V-03");
  EXPECT_EQ(two_nodes("machine", {fmt::format("tcp://127.0.0.1:{}", free_port())}), four_ranks);
}

TEST(Spawn, SpawnWorksWhereALauncherHasStartedOneProcess) {
  RunningCommand job(unisono_command({"run", "-n", "1", SPAWN_HELPER, "after-job"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(count(job.out(), "alone 1"), 1);
  EXPECT_EQ(count(job.out(), "[0] rank 1 of 2, local 1 1, sum 1\n"), 1) << job.out();
}

// ---- launch ----------------------------------------------------------------------------------------------------

TEST(Launch, LaunchRunsOneProcessHereAndSeveralElsewhere) {
  COVERS("V-01", "V-04", "V-05", "K-51", "K-52");
  const auto alone = launch([](int base) { return std::tuple(::getpid(), is_initialized(), world_size(), base + local_rank()); }, 1, 1, 0, "", 40);
  EXPECT_EQ(alone, (std::vector{std::tuple(::getpid(), true, 1, 40)}));
  EXPECT_FALSE(is_initialized());
  const auto many = launch([](int base) { return base + all_reduce(rank()); }, 1, 3, 0, "", 40);
  EXPECT_EQ(many, (std::vector<int>{43, 43, 43}));
  bool ran = false;
  launch([&ran] { ran = true; });
  EXPECT_TRUE(ran);
  launch([] { barrier(); }, 1, 2);
}

TEST(Launch, LaunchPassesItsArgumentsAlone) {
  const auto job = [](int epochs, int batch = 32) { return 1000 * epochs + batch; };
  EXPECT_EQ(launch(job, 1, 1, 0, "", 10), std::vector<int>{10032});
  EXPECT_EQ(launch(job, 1, 2, 0, "", 10), (std::vector<int>{10032, 10032}));
  const auto count_of = [](auto... arguments) { return static_cast<int>(sizeof...(arguments)); };
  EXPECT_EQ(launch(count_of, 1, 1, 0, "", 10), std::vector<int>{1});
  EXPECT_EQ(launch(count_of, 1, 2), (std::vector<int>{0, 0}));
}

TEST(Launch, WhatASingleProcessThrowsIsThrown) {
  EXPECT_THROW(launch([] { throw std::out_of_range("no"); }), std::out_of_range);
  EXPECT_FALSE(is_initialized());
}

// ---- output ----------------------------------------------------------------------------------------------------

class SpawnOutput : public ::testing::TestWithParam<std::string> {};

TEST_P(SpawnOutput, OutputIsWrittenOnceAndLeavingIsTheParentsAffair) {
  RunningCommand program({SPAWN_HELPER, GetParam()});
  EXPECT_EQ(program.wait(), 0) << program.err();
  for (const char* line : {"before\n", "also before\n", "after\n", "at exit\n"}) {
    int times = 0;
    for (const auto& found : lines_of(program.out())) times += found + "\n" == line ? 1 : 0;
    EXPECT_EQ(times, 1) << line << program.out();
  }
  EXPECT_EQ(count(program.out(), "inside\n"), 4) << program.out();
}

INSTANTIATE_TEST_SUITE_P(Spawn, SpawnOutput, ::testing::Values("output", "output-unsynchronized"),
                         [](const auto& one) { return one.param == "output" ? "Synchronized" : "Unsynchronized"; });

}  // namespace
}  // namespace unisono::testing
