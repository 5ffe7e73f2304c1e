// Parallel: alone, under a launcher, and with processes of its own.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <iostream>
#include <sstream>
#include <stdexcept>

#include "covers.h"
#include "running_command.h"
#include "spawn_ranks.h"
#include "two_nodes.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

/// The text that goes to std::clog meanwhile.
class Log {
 public:
  Log() : original_(std::clog.rdbuf(text_.rdbuf())) {}
  ~Log() { std::clog.rdbuf(original_); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  std::string text() const { return text_.str(); }
  int times(const std::string& part) const { return count(text(), part); }

 private:
  std::ostringstream text_;
  std::streambuf* original_;
};

std::string refusal_of(const ParallelOptions& options) {
  try {
    Parallel parallel(options);
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(is_initialized(), false);
    return error.what();
  }
  return "nothing";
}

void expect_parts(const std::string& text, std::initializer_list<std::string> parts) {
  for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

TEST(ParallelRefuses, AnUnknownBackendIsRefused) {
  COVERS("A-60");
  expect_parts(refusal_of({.backend = "abc"}), {"unknown backend \"abc\"", "native", "serial"});
}

// There is nothing that they could be for.
TEST(ParallelRefuses, ProcessesWithoutABackendAreRefused) {
  COVERS("A-61");
  const std::vector<std::pair<std::string, ParallelOptions>> cases{{"nproc_per_node is 2", {.nproc_per_node = 2}},
                                                                   {"nnodes is 2", {.nnodes = 2}},
                                                                   {"node_rank is 1", {.node_rank = 1}},
                                                                   {"master_addr is a", {.master_addr = "a"}},
                                                                   {"master_port is 9", {.master_port = 9}}};
  for (const auto& [part, options] : cases) expect_parts(refusal_of(options), {"Parallel", part, "without a backend"});
}

TEST(ParallelRefuses, NumbersThatMakeNoSenseAreRefused) {
  COVERS("A-62", "A-63", "A-64", "A-65", "A-66");
  expect_parts(refusal_of({.backend = "native", .nproc_per_node = -1}), {"nproc_per_node must be positive, not -1"});
  expect_parts(refusal_of({.backend = "native", .nproc_per_node = 0}), {"nproc_per_node must be positive, not 0"});
  expect_parts(refusal_of({.backend = "native", .nproc_per_node = 1, .nnodes = -1}), {"nnodes must be positive, not -1"});
  expect_parts(refusal_of({.backend = "native", .nproc_per_node = 1, .nnodes = 2}), {"2 nodes", "node_rank must be given"});
  expect_parts(refusal_of({.backend = "native", .nproc_per_node = 1, .nnodes = 2, .node_rank = 2}), {"node_rank must be from 0 to 1, not 2"});
  expect_parts(refusal_of({.backend = "native", .nproc_per_node = 1, .nnodes = 2, .node_rank = -1}), {"node_rank", "-1"});
  expect_parts(refusal_of({.backend = "native", .nproc_per_node = 1, .nnodes = 2, .node_rank = 1}), {"master_addr", "master_port", "init_method"});
  expect_parts(refusal_of({.backend = "native", .nproc_per_node = 1, .nnodes = 2, .node_rank = 1, .master_addr = "here"}), {"here", "no port"});
}

// Without a backend it is the program itself.
TEST(ParallelAlone, ParallelRunsInTheWorldThereIs) {
  COVERS("A-71", "A-73", "A-75");
  const Log log;
  Parallel parallel;
  EXPECT_FALSE(is_initialized());
  const auto results =
      parallel.run([](int local_rank, int x) { return std::tuple(::getpid(), local_rank, world_size(), backend().has_value(), x); }, 7);
  EXPECT_EQ(results, (std::vector{std::tuple(::getpid(), 0, 1, false, 7)}));
  int calls = 0;
  parallel.run([&calls] { ++calls; });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(log.times("in 1 processes"), 2) << log.text();
  EXPECT_EQ(log.times("End of run"), 2) << log.text();
  EXPECT_EQ(log.times("group"), 0) << log.text();
}

// With one, its context is the object's.
TEST(ParallelAlone, ParallelInitializesAndFinalizes) {
  COVERS("A-69", "A-74");
  const Log log;
  {
    Parallel parallel({.backend = "Serial"});
    EXPECT_TRUE(is_initialized());
    EXPECT_EQ(parallel.run([] { return model_name(); }), std::vector<std::string>{"serial"});
    EXPECT_EQ(log.times("Finalized"), 0);
    EXPECT_THROW(Parallel({.backend = "serial"}), AlreadyInitialized);
  }
  EXPECT_FALSE(is_initialized());
  EXPECT_EQ(log.times("Initialized the process group with backend: 'Serial'\n"), 1) << log.text();
  EXPECT_EQ(log.times("Finalized the process group with backend: 'Serial'\n"), 1) << log.text();
}

TEST(ParallelAlone, WhatTheFunctionThrowsIsThrown) {
  const Log log;
  EXPECT_THROW(Parallel().run([] { throw std::out_of_range("no"); }), std::out_of_range);
  EXPECT_THROW(Parallel({.backend = "auto"}).run([] { throw std::out_of_range("no"); }), std::out_of_range);
  EXPECT_FALSE(is_initialized());
  EXPECT_EQ(log.times("End of run"), 0);
  EXPECT_EQ(log.times("Finalized"), 1);
}

// Said, not just ignored.
TEST(ParallelAlone, OptionsWithoutEffectAreWarnedOf) {
  COVERS("A-67");
  ::testing::internal::CaptureStderr();
  {
    const Log log;
    Parallel parallel({.backend = "serial", .nnodes = 3, .node_rank = 1});
    EXPECT_EQ(parallel.run([] { return world_size(); }), std::vector<int>{1});
  }
  {
    const Log log;
    Parallel parallel({.init_method = "tcp://127.0.0.1:1"});
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  expect_parts(said, {"nnodes is 3", "node_rank is 1", "without nproc_per_node", "init_method is given without a backend"});
}

class ParallelSpawns : public ::testing::TestWithParam<int> {};

TEST_P(ParallelSpawns, ParallelSpawnsProcessesOfItsOwn) {
  COVERS("A-70", "A-72", "A-73", "A-75");
  const int n = GetParam();
  const Log log;
  {
    Parallel parallel({.backend = "auto", .nproc_per_node = n});
    EXPECT_FALSE(is_initialized());
    for (int again = 0; again < 2; ++again) {
      const auto results = parallel.run(
          [again](int local_rank, const std::string& word) { return std::tuple(word, local_rank - rank(), all_reduce(rank()), rank() + again); },
          std::string("sum"));
      ASSERT_EQ(results.size(), static_cast<std::size_t>(n));
      for (int r = 0; r < n; ++r) EXPECT_EQ(results[static_cast<std::size_t>(r)], std::tuple(std::string("sum"), 0, n * (n - 1) / 2, r + again));
    }
    parallel.run([](int local_rank) {
      if (local_rank != rank()) throw std::logic_error("local rank");
    });
  }
  EXPECT_EQ(log.times("Prepared to start processes with backend: 'auto'"), 1) << log.text();
  EXPECT_EQ(log.times(fmt::format("\n\tnproc_per_node: {}\n", n)), 1) << log.text();
  EXPECT_EQ(log.times("nnodes"), 0) << log.text();
  EXPECT_EQ(log.times(fmt::format("in {} processes\n", n)), 3) << log.text();
  EXPECT_EQ(log.times("End of run\n"), 3) << log.text();
}

INSTANTIATE_TEST_SUITE_P(Parallel, ParallelSpawns, ::testing::Values(1, 2, 4, 5));

TEST(ParallelSpawnsToo, AFailureNamesTheRank) {
  const Log log;
  Parallel parallel({.backend = "native", .nproc_per_node = 3});
  try {
    parallel.run([] {
      if (rank() == 2) throw std::range_error("too far");
      barrier();
    });
    ADD_FAILURE() << "nothing thrown";
  } catch (const LaunchFailed& error) {
    EXPECT_EQ(error.culprit(), 2);
    expect_parts(error.what(), {"rank 2 threw std::range_error: too far"});
  }
  EXPECT_EQ(parallel.run([] { return all_reduce(1); }), (std::vector<int>{3, 3, 3}));
}

// Two nodes of two, of which node 1 says nothing.
TEST(ParallelNodes, NodesMeetInAFileOrAtAnAddress) {
  COVERS("A-75", "A-68", "K-44", "A-76");
  const TemporaryFolder folder;
  EXPECT_EQ(two_nodes("parallel-node", {"file://" + folder.path() + "/meeting"}), four_ranks);
  EXPECT_EQ(two_nodes("parallel-node", {fmt::format("tcp://127.0.0.1:{}", free_port())}), four_ranks);
  EXPECT_EQ(two_nodes("parallel-node", {"env", "127.0.0.1", std::to_string(free_port())}), four_ranks);
}

// ---- under a launcher ------------------------------------------------------------------------------------------

std::vector<std::string> launched(int ranks, const std::vector<std::string>& words) {
  std::vector<std::string> all{"run", "-n", std::to_string(ranks), SPAWN_HELPER};
  all.insert(all.end(), words.begin(), words.end());
  return unisono_command(all);
}

TEST(ParallelLaunched, ParallelJoinsTheJobAndRankZeroSpeaks) {
  COVERS("A-69", "A-71", "A-73", "A-74", "A-75", "A-76");
  RunningCommand job(launched(4, {"parallel", "native"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  for (int r = 0; r < 4; ++r) EXPECT_EQ(count(job.out(), fmt::format("[{}] rank {} of 4, local {} {}, sum 6\n", r, r, r, r)), 1) << job.out();
  EXPECT_EQ(count(job.out(), "initialized 1\n"), 4);
  EXPECT_EQ(count(job.err(), "[0] [unisono] Initialized the process group with backend: 'native'\n"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "in 4 processes\n"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "End of run\n"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "Finalized the process group"), 1) << job.err();
}

// No job ever runs as N mains: without a backend there is no world to run in before initialize …
TEST(ParallelLaunched, ParallelNeedsAContextWithoutABackend) {
  COVERS("K-45");
  RunningCommand none(launched(2, {"parallel"}));
  EXPECT_EQ(none.wait(), 0) << none.err();
  EXPECT_EQ(count(none.out(), "NotInitialized "), 2) << none.out();
  // … and with one that somebody else has made it neither makes nor ends any.
  RunningCommand job(launched(3, {"parallel-in-context"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(count(job.out(), ", sum 3\n"), 3) << job.out();
  EXPECT_EQ(count(job.out(), "still initialized 1\n"), 3) << job.out();
  EXPECT_EQ(count(job.err(), "in 3 processes\n"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "process group"), 0) << job.err();
}

TEST(ParallelLaunched, AnExceptionReachesThePeersInsteadOfHoldingThem) {
  COVERS("K-46", "Q-25");
  for (const int culprit : {0, 2}) {
    RunningCommand job(launched(3, {"parallel-throw", std::to_string(culprit)}));
    EXPECT_EQ(job.wait(), 0) << job.err();
    for (int r = 0; r < 3; ++r) {
      if (r == culprit) EXPECT_EQ(count(job.out(), tag(r) + "logic_error I give up\n"), 1) << job.out();
      else EXPECT_EQ(count(job.out(), fmt::format("{}PeerFailed {} barrier", tag(r), culprit)), 1) << job.out();
    }
    EXPECT_EQ(count(job.out(), "std::logic_error: I give up"), 2) << job.out();
  }
}

// ---- places on a host ------------------------------------------------------------------------------------------

// Local ranks that are given in another order than the ranks' are the ones that count as local ranks.
TEST(LocalRank, ALocalRankThatWasGivenSaysWhoIsFirst) {
  const TemporaryFolder folder;
  const auto first = spawn(ranks(3), [path = folder.path() + "/store"] {
    const int given = 2 - rank();
    InitOptions options;
    options.store = std::make_shared<FileStore>(path);
    options.rank = rank();
    options.world_size = 3;
    options.local_rank = given;
    finalize();
    const Context context(options);
    std::vector<int> rows;
    for (int wanted = 0; wanted < 3; ++wanted) {
      const OneRankFirst scope({.rank = wanted, .local = true});
      if (scope.is_first()) rows.push_back(wanted);
    }
    return rows;
  });
  EXPECT_EQ(first, (std::vector<std::vector<int>>{{2}, {1}, {0}}));
}

}  // namespace
}  // namespace unisono::testing
