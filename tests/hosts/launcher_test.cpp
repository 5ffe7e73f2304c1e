// `unisono run --nnodes` on several hosts: who has which ranks, where they meet, and how the job ends.

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "covers.h"
#include "job.h"

namespace unisono::testing {
namespace {

TEST(LaunchersOfHosts, LaunchersNumberTheRanksOfUnevenHosts) {
  COVERS("E-01", "E-02", "E-03", "E-05", "E-06");
  MAKE_HOSTS(hosts, 3);
  std::vector<std::unique_ptr<RunningCommand>> job;
  for (int node = 0; node < 3; ++node) {
    job.push_back(hosts.start(node,
                              node_words({.nodes = 3, .node = node, .ranks = node + 1, .master = hosts.address(0)},
                                         {RANK_HELPER, "variables", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
                                          "GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}),
                              secret));
  }
  const std::vector<int> first{0, 1, 3};
  std::string port;
  for (int node = 0; node < 3; ++node) {
    RunningCommand& launcher = *job[static_cast<std::size_t>(node)];
    ASSERT_EQ(launcher.wait(), 0) << launcher.err();
    for (int local = 0; local <= node; ++local) {
      const int rank = first[static_cast<std::size_t>(node)] + local;
      for (const auto& text : {fmt::format("RANK={}", rank), std::string("WORLD_SIZE=6"), fmt::format("LOCAL_RANK={}", local),
                               fmt::format("LOCAL_WORLD_SIZE={}", node + 1), fmt::format("GROUP_RANK={}", node), std::string("GROUP_WORLD_SIZE=3"),
                               std::string("MASTER_ADDR=10.77.0.1")}) {
        EXPECT_EQ(count(launcher.out(), tag(rank) + text + "\n"), 1) << text << "\n" << launcher.out();
      }
      const std::string own = word_after(launcher.out(), tag(rank) + "MASTER_PORT=");
      EXPECT_NE(own, "29500") << "that one is the launchers'";
      if (port.empty()) port = own;
      EXPECT_EQ(own, port) << "all ranks are told the same";
    }
  }
}

TEST(LaunchersOfHosts, LaunchersLetRanksMeetByTheAddressesOfTheNetwork) {  // B15, F12: no hint is given
  for (const bool six : {false, true}) {
    MAKE_HOSTS(hosts, 2, six ? std::vector<std::string>{"--six"} : std::vector<std::string>{});
    const auto job = start_job(hosts, 2, {HOST_RANK, "meet"});
    for (int node = 0; node < 2; ++node) {
      RunningCommand& launcher = *job[static_cast<std::size_t>(node)];
      EXPECT_EQ(launcher.wait(), 0) << launcher.err();
      for (int rank = 2 * node; rank < 2 * node + 2; ++rank) {
        EXPECT_EQ(count(launcher.out(), fmt::format("[{}] rank {} of 4 at {}, with host0 host0 host1 host1\n", rank, rank, hosts.address(node))), 1)
            << launcher.out() << launcher.err();
      }
    }
  }
}

TEST(LaunchersOfHosts, LaunchersListenOnTheChosenAddressAlone) {  // A10
  MAKE_HOSTS(hosts, 2);
  TemporaryFolder folder;
  const auto job = start_job(hosts, 2, {HOST_RANK, "hold", folder.path() + "/go"});
  for (const auto& launcher : job) ASSERT_TRUE(launcher->until_out_has("holding\n", 2)) << launcher->err();
  EXPECT_EQ(hosts.listening(0), std::vector<std::string>{"10.77.0.1:29500"});
  EXPECT_EQ(hosts.listening(1), std::vector<std::string>{});
  write_secret(folder.path() + "/go", "");
  for (const auto& launcher : job) EXPECT_EQ(launcher->wait(), 0) << launcher->err();
}

TEST(LaunchersOfHosts, LaunchersOfOneHostListenNowhere) {  // A10
  MAKE_HOSTS(hosts, 1);
  TemporaryFolder folder;
  const auto job = hosts.start(0, unisono_command({"run", "-n", "3", "--", HOST_RANK, "hold", folder.path() + "/go"}));
  ASSERT_TRUE(job->until_out_has("holding\n", 3)) << job->err();
  EXPECT_EQ(hosts.listening(0), std::vector<std::string>{});
  write_secret(folder.path() + "/go", "");
  EXPECT_EQ(job->wait(), 0) << job->err();
}

TEST(LaunchersOfHosts, LaunchersNameTheSameFirstCauseWhereverItWas) {  // K1, F21
  MAKE_HOSTS(hosts, 3);
  const auto job = start_job(hosts, 3, {"sh", "-c", "if [ $RANK = 3 ]; then echo it was me >&2; kill -9 $$; fi; sleep 100"});
  for (const auto& launcher : job) {
    EXPECT_EQ(launcher->wait(), 137) << launcher->err();
    EXPECT_EQ(count(launcher->err(), "first cause: rank 3 (pid "), 1) << launcher->err();
    EXPECT_EQ(count(launcher->err(), " on host1) ended by SIGKILL"), 1) << launcher->err();
    EXPECT_EQ(count(launcher->err(), "the others: ranks 0-2, 4, 5 ended by the launcher (SIGTERM)"), 1) << launcher->err();
  }
  EXPECT_EQ(count(job[1]->err(), "[3] it was me"), 1) << "its last lines stand where they were written: " << job[1]->err();
  EXPECT_EQ(count(job[1]->err(), "| it was me"), 0) << "and are not said again right below: " << job[1]->err();
}

TEST(LaunchersOfHosts, LaunchersEndWithTheExitCodeOfTheCause) {  // B20
  MAKE_HOSTS(hosts, 2);
  const auto job = start_job(hosts, 2, {"sh", "-c", "[ $RANK = 1 ] && exit 7; exec sleep 100"});
  for (const auto& launcher : job) EXPECT_EQ(launcher->wait(), 7) << launcher->err();
}

TEST(LaunchersOfHosts, LaunchersWaitForEachOther) {
  MAKE_HOSTS(hosts, 2);
  TemporaryFolder folder;
  const auto job =
      start_job(hosts, 2, {"sh", "-c", fmt::format("[ $RANK -lt 2 ] && exit 0; while [ ! -e {}/go ]; do sleep 0.05; done; exit 3", folder.path())});
  EXPECT_EQ(job[0]->wait(std::chrono::seconds(1)), -1) << "host 1 is still at work";
  write_secret(folder.path() + "/go", "");
  for (const auto& launcher : job) EXPECT_EQ(launcher->wait(), 3) << launcher->err();
}

TEST(LaunchersOfHosts, LaunchersStartAgainTogether) {  // F19: the attempt before has no part in the next
  MAKE_HOSTS(hosts, 2);
  const auto job =
      start_job(hosts, 2, {"sh", "-c", fmt::format("[ $UNISONO_ATTEMPT$RANK = 03 ] && exit 5; exec {} meet", HOST_RANK)}, {"--max-restarts", "1"});
  for (const auto& launcher : job) {
    EXPECT_EQ(launcher->wait(), 0) << launcher->err();
    EXPECT_EQ(count(launcher->err(), "restart 1 of 1"), 1) << launcher->err();
    EXPECT_EQ(count(launcher->out(), ", with host0 host0 host1 host1\n"), 2) << launcher->out();
  }
}

TEST(LaunchersOfHosts, LaunchersAreAllEndedByASignalToOne) {  // K8
  for (const int interrupted : {0, 1}) {
    MAKE_HOSTS(hosts, 2);
    const auto job = start_job(hosts, 2, {"sh", "-c", "echo up; exec sleep 100"});
    for (const auto& launcher : job) ASSERT_TRUE(launcher->until_out_has("up\n", 2)) << launcher->err();
    job[static_cast<std::size_t>(interrupted)]->send(SIGINT);
    for (const auto& launcher : job) EXPECT_EQ(launcher->wait(), 130) << launcher->err();
    EXPECT_EQ(count(job[static_cast<std::size_t>(1 - interrupted)]->err(), fmt::format("SIGINT has ended the launcher at host{}:", interrupted)), 1);
  }
}

TEST(LaunchersOfHosts, LaunchersDoNotStartAgainWithoutOne) {  // K7, K8: one leaves, or is killed, while they wait to start again
  for (const int signal : {SIGINT, SIGKILL}) {
    for (const int leaving : {0, 1}) {
      MAKE_HOSTS(hosts, 2);
      const auto job = start_job(hosts, 2, {"sh", "-c", "[ $UNISONO_ATTEMPT = 0 ] && exit 5; exec sleep 100"}, {"--max-restarts", "3"});
      for (const auto& launcher : job) ASSERT_TRUE(launcher->until_err_has("restart 1 of 3")) << launcher->err();
      job[static_cast<std::size_t>(leaving)]->send(signal);
      EXPECT_EQ(job[static_cast<std::size_t>(leaving)]->wait(), 128 + signal);
      RunningCommand& other = *job[static_cast<std::size_t>(1 - leaving)];
      const int code = other.wait();
      EXPECT_TRUE(code == (signal == SIGINT ? 130 : 1)) << code << "\n" << other.err();
      EXPECT_NE(other.err().find(fmt::format("the launcher at host{}:", leaving)), std::string::npos) << other.err();
    }
  }
}

TEST(LaunchersOfHosts, LaunchersNoticeAtOnceThatOneWasKilled) {  // K7: long before its silence would tell
  for (const int killed : {0, 1, 2}) {
    MAKE_HOSTS(hosts, 3);
    const auto job = start_job(hosts, 3, {"sh", "-c", "echo up; exec sleep 100"}, {"--silence", "3000"});
    for (const auto& launcher : job) ASSERT_TRUE(launcher->until_out_has("up\n", 2)) << launcher->err();
    job[static_cast<std::size_t>(killed)]->send(SIGKILL);
    for (int node = 0; node < 3; ++node) {
      RunningCommand& launcher = *job[static_cast<std::size_t>(node)];
      EXPECT_EQ(launcher.wait(), node == killed ? 137 : 1) << launcher.err();
      if (node != killed) {
        EXPECT_EQ(count(launcher.err(), fmt::format("first cause: the launcher at host{}:", killed)), 1) << launcher.err();
      }
    }
  }
}

TEST(LaunchersOfHosts, LaunchersNoticeOneThatIsCutOff) {  // N1, N2: both sides end, each naming the other
  MAKE_HOSTS(hosts, 3);
  const auto job = start_job(hosts, 3, {"sh", "-c", "echo up; exec sleep 100"}, {"--silence", "5"});
  for (const auto& launcher : job) ASSERT_TRUE(launcher->until_out_has("up\n", 2)) << launcher->err();
  hosts.run(2, {"ip", "link", "set", "net0", "down"});
  for (const auto& launcher : job) EXPECT_EQ(launcher->wait(), 1) << launcher->err();
  for (const int node : {0, 1}) {
    EXPECT_EQ(count(job[static_cast<std::size_t>(node)]->err(), "first cause: the launcher at host2:"), 1)
        << job[static_cast<std::size_t>(node)]->err();
  }
  EXPECT_EQ(count(job[2]->err(), "first cause: the launcher at host0:"), 1) << job[2]->err();
}

TEST(LaunchersOfHosts, LaunchersOutliveAShortCut) {  // N4
  MAKE_HOSTS(hosts, 2);
  TemporaryFolder folder;
  const auto job = start_job(hosts, 2, {HOST_RANK, "hold", folder.path() + "/go"});
  for (const auto& launcher : job) ASSERT_TRUE(launcher->until_out_has("holding\n", 2)) << launcher->err();
  hosts.run(1, {"ip", "link", "set", "net0", "down"});
  EXPECT_EQ(job[1]->wait(std::chrono::seconds(1)), -1);
  hosts.run(1, {"ip", "link", "set", "net0", "up"});
  write_secret(folder.path() + "/go", "");
  for (const auto& launcher : job) EXPECT_EQ(launcher->wait(), 0) << launcher->err();
}

// Launchers need no terminal and nothing of each other's environment, whether a shell on each host starts them or a script for all.
TEST(LaunchersOfHosts, LaunchersMayBeStartedByAnything) {
  MAKE_HOSTS(hosts, 2);
  std::vector<std::unique_ptr<RunningCommand>> job;
  for (int node = 0; node < 2; ++node) {
    std::vector<std::string> words{"env",    "-i",    "UNISONO_TOKEN=sixteen bytes ab", fmt::format("SLURM_NODEID={}", node), "SLURM_JOB_ID=7",
                                   "setsid", "--wait"};
    for (const auto& word : node_words({.node = node, .master = "host0"}, {HOST_RANK, "meet"})) words.push_back(word);
    job.push_back(hosts.start(node, words));
  }
  for (const auto& launcher : job) {
    EXPECT_EQ(launcher->wait(), 0) << launcher->err();
    EXPECT_EQ(count(launcher->out(), ", with host0 host0 host1 host1\n"), 2) << launcher->out() << launcher->err();
  }
}

}  // namespace
}  // namespace unisono::testing
