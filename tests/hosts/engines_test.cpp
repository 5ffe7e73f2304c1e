// Engines of other libraries between hosts: an MPI that our launchers put together, without one of its own, and UCX.

#include <gtest/gtest.h>

#include "job.h"

namespace unisono::testing {
namespace {

/// `unisono run` on every host, with one rank on the first, two on the second, and so on.
std::string run_uneven(const Hosts& hosts, int nodes, const std::vector<std::string>& words, const Variables& variables, int code = 0) {
  std::vector<std::unique_ptr<RunningCommand>> job;
  for (int node = 0; node < nodes; ++node) {
    const NodeFlags flags{.nodes = nodes, .node = node, .ranks = node + 1, .master = hosts.address(0)};
    job.push_back(hosts.start(node, node_words(flags, words), with(variables, secret)));
  }
  std::string said;
  for (const auto& launcher : job) {
    EXPECT_EQ(launcher->wait(std::chrono::seconds(120)), code) << launcher->err() << launcher->out();
    said += launcher->out() + launcher->err();
  }
  return said;
}

class MpiOfHosts : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string kind = GetParam();
    if (std::string(UNISONO_MPI_KINDS).find(kind) == std::string::npos) GTEST_SKIP() << kind << " was not found when this was built";
    if (kind == "openmpi" && !HAS_PMIX) GTEST_SKIP() << "this build has no unisono-pmix (package libpmix-dev)";
  }
  Variables variables() const { return {{"UNISONO_BACKEND", "mpi"}, {"UNISONO_MPI", GetParam()}, {"UNISONO_TIMEOUT", "60"}}; }
};

TEST_P(MpiOfHosts, OneMpiHasAllRanksOfTheHosts) {
  MAKE_HOSTS(hosts, 3);
  for (const int nodes : {2, 3}) {
    const int ranks = nodes * (nodes + 1) / 2;
    const std::string said = run_uneven(hosts, nodes, {HOST_RANK, "move"}, variables());
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(count(said, fmt::format("[{}] rank {} of {} by mpi, all is right\n", rank, rank, ranks)), 1) << said;
    }
  }
}

// The launchers end their ranks, as on any engine, and name the same cause.
TEST_P(MpiOfHosts, MpiEndsWhenARankDies) {
  MAKE_HOSTS(hosts, 2);
  const std::string said = run_uneven(hosts, 2, {HOST_RANK, "fall", "2"}, variables(), 134);
  EXPECT_EQ(count(said, "first cause: rank 2 (pid "), 2) << said;
}

INSTANTIATE_TEST_SUITE_P(Hosts, MpiOfHosts, ::testing::Values("openmpi", "mpich"), [](const auto& kind) { return std::string(kind.param); });

TEST(MpisOfHosts, TheMpisOfHostsAreOfOneKind) {
  const std::string kinds = UNISONO_MPI_KINDS;
  if (kinds.find("openmpi") == std::string::npos || kinds.find("mpich") == std::string::npos || !HAS_PMIX) GTEST_SKIP() << "this needs both MPIs";
  MAKE_HOSTS(hosts, 2);
  std::vector<std::unique_ptr<RunningCommand>> job;
  for (int node = 0; node < 2; ++node) {
    const Variables variables{{"UNISONO_BACKEND", "mpi"}, {"UNISONO_MPI", node == 0 ? "openmpi" : "mpich"}, {"UNISONO_TIMEOUT", "60"}};
    const NodeFlags flags{.nodes = 2, .node = node, .ranks = 1, .master = hosts.address(0)};
    job.push_back(hosts.start(node, node_words(flags, {HOST_RANK, "move"}), with(variables, secret)));
  }
  for (const auto& launcher : job) EXPECT_NE(launcher->wait(std::chrono::seconds(120)), 0);
  EXPECT_GE(count(job[0]->out() + job[1]->out(), "two kinds of MPI cannot talk to each other"), 1) << job[0]->out() << job[1]->out();
}

TEST(UcxOfHosts, UcxMovesDataBetweenHosts) {
  if (!HAS_UCX) GTEST_SKIP() << "UCX was not found when this was built (package libucx-dev)";
  MAKE_HOSTS(hosts, 3);
  for (const int nodes : {2, 3}) {
    const int ranks = nodes * (nodes + 1) / 2;
    const std::string said =
        run_uneven(hosts, nodes, {HOST_RANK, "move"}, {{"UNISONO_BACKEND", "ucx"}, {"UCX_TLS", "tcp"}, {"UNISONO_TIMEOUT", "60"}});
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(count(said, fmt::format("[{}] rank {} of {} by ucx, all is right\n", rank, rank, ranks)), 1) << said;
    }
  }
}

TEST(UcxOfHosts, UcxEndsWhenARankDies) {
  if (!HAS_UCX) GTEST_SKIP() << "UCX was not found when this was built (package libucx-dev)";
  for (const int victim : {0, 2}) {
    MAKE_HOSTS(hosts, 2);
    const std::string said = run_uneven(hosts, 2, {HOST_RANK, "fall", std::to_string(victim)}, {{"UNISONO_BACKEND", "ucx"}, {"UCX_TLS", "tcp"}}, 134);
    EXPECT_EQ(count(said, fmt::format("first cause: rank {} (pid ", victim)), 2) << said;
    EXPECT_EQ(count(said, fmt::format("[culprit: rank {} on host{}]", victim, victim == 0 ? 0 : 1)), 2) << said;
  }
}

}  // namespace
}  // namespace unisono::testing
