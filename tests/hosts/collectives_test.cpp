// Programs of several hosts, the whole way: started, met, connected, and through their collectives.

#include <gtest/gtest.h>
#include <signal.h>

#include "covers.h"
#include "job.h"

namespace unisono::testing {
namespace {

TEST(CollectivesOfHosts, CollectivesOfHostsReachEveryRank) {  // 2 x 2, and hosts with 1, 2 and 3 ranks
  for (const bool uneven : {false, true}) {
    const int nodes = uneven ? 3 : 2;
    const int ranks = uneven ? 6 : 4;
    MAKE_HOSTS(hosts, nodes);
    std::vector<std::unique_ptr<RunningCommand>> job;
    for (int node = 0; node < nodes; ++node) {
      job.push_back(hosts.start(
          node, node_words({.nodes = nodes, .node = node, .ranks = uneven ? node + 1 : 2, .master = hosts.address(0)}, {HOST_RANK, "sum"}), secret));
    }
    std::string out;
    for (const auto& launcher : job) {
      EXPECT_EQ(launcher->wait(), 0) << launcher->err();
      out += launcher->out();
    }
    for (int rank = 0; rank < ranks; ++rank) {
      const int node = uneven ? (rank == 0 ? 0 : rank < 3 ? 1 : 2) : rank / 2;
      EXPECT_EQ(count(out, fmt::format("[{}] rank {} of {}, node {} of {}, sum {}\n", rank, rank, ranks, node, nodes, ranks * (ranks - 1) / 2)), 1)
          << out;
    }
  }
}

TEST(CollectivesOfHosts, FunctionsOfCReachTheRanksOfOtherHosts) {
  MAKE_HOSTS(hosts, 2);
  for (const std::string word : {"calls", "mismatch"}) {
    const auto job = start_job(hosts, 2, {C_CALLS, word});
    for (int node = 0; node < 2; ++node) {
      EXPECT_EQ(job[static_cast<std::size_t>(node)]->wait(), 0) << job[static_cast<std::size_t>(node)]->err();
      EXPECT_EQ(count(job[static_cast<std::size_t>(node)]->out(), word + " went well\n"), 2);
    }
  }
}

TEST(CollectivesOfHosts, CollectivesOfHostsNeedNothingButTheEnvironment) {  // B15: two hosts, no launcher of ours and no hint
  for (const bool two_networks : {false, true}) {
    MAKE_HOSTS(hosts, 2, two_networks ? std::vector<std::string>{"--two-networks"} : std::vector<std::string>{});
    std::vector<std::unique_ptr<RunningCommand>> job;
    for (int rank = 0; rank < 2; ++rank) job.push_back(hosts.start(rank, {HOST_RANK, "sum"}, rank_variables(rank, 2, hosts.address(0))));
    for (int rank = 0; rank < 2; ++rank) {
      RunningCommand& each = *job[static_cast<std::size_t>(rank)];
      EXPECT_EQ(each.wait(), 0) << each.out();
      EXPECT_EQ(count(each.out(), fmt::format("rank {} of 2, node {} of 2, sum 1\n", rank, rank)), 1) << each.out();
    }
  }
}

TEST(CollectivesOfHosts, CollectivesOfHostsGoOverOurOwnConnectionsWhereNobodyAsksForOthers) {
  MAKE_HOSTS(hosts, 2);
  auto variables = secret;
  for (const std::string backend : {"auto", "gloo"}) {
    if (backend == "gloo" && !has_gloo()) GTEST_SKIP() << "with gloo: the plug-in is not built";
    variables["UNISONO_BACKEND"] = backend;
    for (const std::string level : {"warning", "info"}) {
      variables["UNISONO_LOG"] = level;
      const auto job = start_job(hosts, 2, {HOST_RANK, "sum"}, {}, variables);
      for (const auto& launcher : job) EXPECT_EQ(launcher->wait(), 0) << launcher->err();
      EXPECT_EQ(count(job[0]->err(), "backend tcp between hosts, native inside them"), backend == "auto" && level == "info" ? 1 : 0) << job[0]->err();
      if (level == "warning") {
        EXPECT_EQ(job[0]->err() + job[1]->err(), "") << "nothing is wrong";
      }
    }
  }
}

TEST(CollectivesOfHosts, CollectivesOfHostsMeasureTheNetworkOnceForTheSameHosts) {
  MAKE_HOSTS(hosts, 3);
  auto variables = secret;
  variables["UNISONO_LOG"] = "debug";
  const auto job = start_job(hosts, 3, {HOST_RANK, "groups"}, {}, variables);
  std::string out;
  for (const auto& launcher : job) {
    EXPECT_EQ(launcher->wait(), 0) << launcher->out() << launcher->err();
    out += launcher->out() + launcher->err();
  }
  EXPECT_EQ(count(out, "all is right\n"), 6) << out;
  // The first group on some hosts measures, and the second takes its figures. Where its rank 0 has none all ranks measure, also those that have them.
  EXPECT_EQ(count(out, "the network between 3 hosts, measured: latency"), 6) << out;
  EXPECT_EQ(count(out, "the network between 3 hosts, measured by an earlier group on these hosts: latency"), 6) << out;
  EXPECT_EQ(count(out, "the network between 2 hosts, measured: latency"), 2 + 4) << out;
  EXPECT_EQ(count(out, "the network between 2 hosts, measured by an earlier group on these hosts: latency"), 4) << out;
}

TEST(CollectivesOfHosts, CollectivesOfHostsShowWhatTheyMeasureAndChoose) {
  MAKE_HOSTS(hosts, 2);
  const auto shown = [&](const Variables& more, const std::vector<std::string>& options = {}) {
    std::vector<std::string> words{UNISONO_COMMAND, "info", "--schedules"};
    words.insert(words.end(), options.begin(), options.end());
    const auto job = start_job(hosts, 2, words, {}, with(secret, more));
    for (const auto& launcher : job) EXPECT_EQ(launcher->wait(), 0) << launcher->out() << launcher->err();
    EXPECT_EQ(job[1]->out(), "");
    return job[0]->out();
  };
  const std::string measured = shown({}), given = shown({{"UNISONO_NETWORK", "5,0.5,1"}});
  for (const std::string* each : {&measured, &given}) {
    EXPECT_EQ(count(*each, "[0] ranks                       4 on 2 hosts, those of this job\n"), 1) << *each;
    EXPECT_EQ(count(*each, "[0] backend                     tcp\n"), 1) << *each;
    EXPECT_EQ(count(*each, "[0] all_gather                  with the comparison of the calls, "), 1) << *each;
  }
  EXPECT_EQ(count(measured, "[0] network                     measured: latency "), 1) << measured;
  const std::string whole_lines = shown({}, {"--json"});
  EXPECT_EQ(count(whole_lines, "are replaced by its fixed ones"), count(whole_lines, "ranks for each processor")) << whole_lines;
  EXPECT_EQ(count(given, "[0] network                     given by UNISONO_NETWORK: latency 5 µs, "), 1) << given;
}

TEST(CollectivesOfHosts, CollectivesOfHostsEndWhenARankDies) {  // K1, F1: the others name it, and every launcher does
  for (const int victim : {0, 3}) {
    MAKE_HOSTS(hosts, 2);
    const auto job = start_job(hosts, 2, {HOST_RANK, "fall", std::to_string(victim)});
    std::string out;
    for (const auto& launcher : job) {
      EXPECT_EQ(launcher->wait(), 134) << launcher->err();
      EXPECT_EQ(count(launcher->err(), fmt::format("first cause: rank {} (pid ", victim)), 1) << launcher->err();
      out += launcher->out();
    }
    EXPECT_EQ(count(out, "failed: PeerFailed"), 3) << out;
    EXPECT_EQ(count(out, fmt::format("[culprit: rank {} on host{}]", victim, victim / 2)), 3) << out;
  }
}

TEST(CollectivesOfHosts, CollectivesOfHostsSeeAtOnceThatARankWasKilledWhoseChildLives) {
  for (const int victim : {1, 0}) {
    MAKE_HOSTS(hosts, 2);
    std::vector<std::unique_ptr<RunningCommand>> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.push_back(hosts.start(rank, {HOST_RANK, "orphan", std::to_string(victim)}, rank_variables(rank, 2, hosts.address(0))));
    }
    EXPECT_EQ(ranks[static_cast<std::size_t>(victim)]->wait(), 137);
    const pid_t child = std::stoi(word_after(ranks[static_cast<std::size_t>(victim)]->out(), "child "));
    RunningCommand& other = *ranks[static_cast<std::size_t>(1 - victim)];
    EXPECT_EQ(other.wait(std::chrono::seconds(20)), 1) << other.out() << other.err();  // silence takes 30 s to be noticed
    EXPECT_EQ(count(other.out(), "failed: PeerFailed"), 1) << other.out();
    EXPECT_EQ(count(other.out(), fmt::format("[culprit: rank {} on host{}]", victim, victim)), 1) << other.out();
    EXPECT_TRUE(is_alive(child));
    ::kill(child, SIGKILL);
  }
}

TEST(CollectivesOfHosts, CollectivesOfHostsListenNowhereOnceTheyAreConnected) {  // A10: the store alone, at the chosen address
  COVERS("T-45");
  MAKE_HOSTS(hosts, 2);
  TemporaryFolder folder;
  const auto job = start_job(hosts, 2, {HOST_RANK, "work", folder.path() + "/go"});
  for (const auto& launcher : job) ASSERT_TRUE(launcher->until_out_has("working\n", 2)) << launcher->err();
  EXPECT_EQ(hosts.listening(0), std::vector<std::string>{"10.77.0.1:29500"});
  EXPECT_EQ(hosts.listening(1), std::vector<std::string>{});
  write_secret(folder.path() + "/go", "");
  for (const auto& launcher : job) EXPECT_EQ(launcher->wait(), 0) << launcher->err();
}

}  // namespace
}  // namespace unisono::testing
