// `unisono run --nnodes`: a launcher on each of several hosts, here two on this one.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <memory>

#include "covers.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

std::vector<std::string> node(int node_rank, int port, const std::vector<std::string>& words, const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{"run",
                               "-n",
                               "2",
                               "--nnodes",
                               "2",
                               "--node-rank",
                               std::to_string(node_rank),
                               "--master-addr",
                               "127.0.0.1",
                               "--master-port",
                               std::to_string(port),
                               "--grace",
                               "5"};
  all.insert(all.end(), more.begin(), more.end());
  all.emplace_back("--");
  all.insert(all.end(), words.begin(), words.end());
  return unisono_command(all);
}

TEST(LauncherNodes, EveryRankHasItsPlaceInTheWhole) {
  COVERS("I-15", "I-16", "E-01", "E-02", "E-03", "E-05", "E-06");
  const int port = free_port();
  const std::vector<std::string> words{RANK_HELPER,  "variables",        "RANK",        "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                       "GROUP_RANK", "GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
  RunningCommand second(node(1, port, words)), first(node(0, port, words));
  for (int r = 0; r < 2; ++r) {
    RunningCommand& job = r == 0 ? first : second;
    ASSERT_EQ(job.wait(), 0) << job.err();
    for (int local = 0; local < 2; ++local) {
      const std::string prefix = tag(2 * r + local);
      for (const auto& text : {fmt::format("RANK={}", 2 * r + local), std::string("WORLD_SIZE=4"), fmt::format("LOCAL_RANK={}", local),
                               std::string("LOCAL_WORLD_SIZE=2"), fmt::format("GROUP_RANK={}", r), std::string("GROUP_WORLD_SIZE=2"),
                               std::string("MASTER_ADDR=127.0.0.1")}) {
        EXPECT_EQ(count(job.out(), prefix + text + "\n"), 1) << prefix << text << "\n" << job.out();
      }
      EXPECT_NE(word_after(job.out(), prefix + "MASTER_PORT="), std::to_string(port)) << "where the launchers meet";
    }
  }
}

// A call that waits learns as soon as the launchers do that a host is lost.
TEST(LauncherNodes, AllRanksHaveTheLimitOfSilenceOfHostZero) {
  const int port = free_port();
  RunningCommand second(node(1, port, {RANK_HELPER, "silence"}, {"--silence", "90"}));
  RunningCommand first(node(0, port, {RANK_HELPER, "silence"}, {"--silence", "7.5"}));
  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_EQ(second.wait(), 0) << second.err();
  EXPECT_EQ(count(first.out() + second.out(), "silence 7500\n"), 4) << first.out() << second.out();
}

// Ranks that ask earlier are answered later. strace makes the first launcher slow, not its threads: half a second behind each call by which its store
// begins to serve something.
TEST(LauncherNodes, RanksOfASlowLauncherMeetTheOthers) {
  if (::access("/usr/bin/strace", X_OK) != 0) GTEST_SKIP() << "skipped: no strace";
  const int port = free_port();
  const std::map<std::string, std::string> brief{{"UNISONO_TIMEOUT", "50"}};
  std::vector<std::string> slow{"/usr/bin/strace", "-o", "/dev/null", "-e", "trace=epoll_ctl", "-e", "inject=epoll_ctl:delay_exit=500000"};
  const std::vector<std::string> words = node(0, port, {SPAWN_HELPER, "rank"});
  slow.insert(slow.end(), words.begin(), words.end());
  RunningCommand second(node(1, port, {SPAWN_HELPER, "rank"}), {.environment = brief});
  RunningCommand first(slow, {.environment = brief});
  const int code = first.wait();
  if (code != 0 && first.err().find("strace") != std::string::npos) GTEST_SKIP() << "skipped: strace may not trace here";
  EXPECT_EQ(code, 0) << first.err();
  EXPECT_EQ(second.wait(), 0) << second.err();
}

TEST(LauncherNodes, RanksMeetAtTheMasterAddress) {
  const int port = free_port();
  RunningCommand second(node(1, port, {SPAWN_HELPER, "rank"}));
  RunningCommand first(node(0, port, {SPAWN_HELPER, "rank"}));
  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_EQ(second.wait(), 0) << second.err();
  const std::string out = first.out() + second.out();
  for (int r = 0; r < 4; ++r) EXPECT_EQ(count(out, fmt::format("[{}] rank {} of 4, local {} {}, sum 6\n", r, r, r % 2, r % 2)), 1) << out;
}

TEST(LauncherNodes, TheSummaryComparesTheWaitsOfAllHosts) {
  const int port = free_port();
  const std::vector<std::string> words{RANK_HELPER, "late", "3", "works"};
  RunningCommand second(node(1, port, words, {"--summary"})), first(node(0, port, words, {"--summary"}));
  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_EQ(second.wait(), 0) << second.err();
  EXPECT_NE(unwrapped(first.err()).find("rank 3 waited for the others for "), std::string::npos) << first.err();
  EXPECT_NE(unwrapped(first.err()).find(" % of its time, the least of all, and rank "), std::string::npos) << first.err();
}

// Under `srun --ntasks-per-node=1 unisono run` the numbers of the nodes are Slurm's.
TEST(LauncherNodes, NodesTakeTheirNumbersFromSlurm) {
  const int port = free_port();
  const auto task = [&](int number, const std::vector<std::string>& flags) {
    std::vector<std::string> words{"run", "-n", "2"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", SPAWN_HELPER, "rank"});
    return std::make_unique<RunningCommand>(unisono_command(words),
                                            RunningCommand::Options{.environment = {{"SLURM_JOB_ID", "77"},
                                                                                    {"SLURM_STEP_ID", "0"},
                                                                                    {"SLURM_PROCID", std::to_string(number)},
                                                                                    {"SLURM_NODEID", std::to_string(number)},
                                                                                    {"SLURM_LOCALID", "0"},
                                                                                    {"SLURM_NTASKS", "2"},
                                                                                    {"SLURM_STEP_NUM_NODES", "2"},
                                                                                    {"SLURM_STEP_NODELIST", "localhost,elsewhere"},
                                                                                    {"MASTER_PORT", std::to_string(port)}}});
  };
  const auto second = task(1, {}), first = task(0, {});
  EXPECT_EQ(first->wait(), 0) << first->err();
  EXPECT_EQ(second->wait(), 0) << second->err();
  const std::string out = first->out() + second->out();
  for (int r = 0; r < 4; ++r) EXPECT_EQ(count(out, fmt::format("[{}] rank {} of 4, local {} {}, sum 6\n", r, r, r % 2, r % 2)), 1) << out;
  // The command line comes first.
  const auto alone = task(1, {"--nnodes", "1"});
  EXPECT_EQ(alone->wait(), 0) << alone->err();
  EXPECT_EQ(count(alone->out(), "rank 1 of 2"), 1) << alone->out();
}

// In a batch script, and in the shell of an allocation, no launcher is started for the other nodes: nobody waits for one.
TEST(LauncherNodes, NodesAreNotLookedForInAnAllocation) {
  const std::map<std::string, std::string> shell{
      {"SLURM_JOB_ID", "77"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_JOB_NODELIST", "localhost,elsewhere"}};
  std::map<std::string, std::string> script = shell;
  script.insert({{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "0"}});
  for (const auto& variables : {shell, script}) {
    RunningCommand job(unisono_command({"run", "-n", "2", "--", SPAWN_HELPER, "rank"}), {.environment = variables});
    EXPECT_EQ(job.wait(), 0) << job.err();
    EXPECT_EQ(count(job.out(), "rank 1 of 2"), 1) << job.out();
  }
}

// A launcher that waits for another host tells which one, and where it is expected.
TEST(LauncherNodes, ALauncherThatWaitsSaysForWhichHostAndWhere) {
  const int port = free_port();
  RunningCommand second(node(1, port, {SPAWN_HELPER, "rank"}));
  EXPECT_TRUE(second.until_err_has(fmt::format("[unisono] waiting for host 0 at 127.0.0.1:{}\n", port))) << second.err();
  RunningCommand first(node(0, port, {SPAWN_HELPER, "rank"}));
  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_EQ(second.wait(), 0) << second.err();

  const int other = free_port();
  RunningCommand alone(node(0, other, {SPAWN_HELPER, "rank"}));
  EXPECT_TRUE(alone.until_err_has(fmt::format("[unisono] waiting for host 1 of 2 at 127.0.0.1:{}\n", other))) << alone.err();
  RunningCommand late(node(1, other, {SPAWN_HELPER, "rank"}));
  EXPECT_EQ(alone.wait(), 0) << alone.err();
  EXPECT_EQ(late.wait(), 0) << late.err();

  RunningCommand silent(node(1, free_port(), {SPAWN_HELPER, "rank"}), {.environment = {{"UNISONO_LOG", "off"}, {"UNISONO_TIMEOUT", "5"}}});
  EXPECT_EQ(silent.wait(), 1);
  EXPECT_EQ(count(silent.err(), "waiting for"), 0) << silent.err();
}

// The launchers put together what each has seen of its own ranks, and come to the same end.
TEST(LauncherNodes, AllNameTheCause) {
  const int port = free_port();
  RunningCommand first(node(0, port, {SPAWN_HELPER, "rank-dies", "3"}));
  RunningCommand second(node(1, port, {SPAWN_HELPER, "rank-dies", "3"}));
  for (RunningCommand* launcher : {&first, &second}) {
    EXPECT_EQ(launcher->wait(), 137) << launcher->err();
    EXPECT_EQ(count(launcher->err(), "first cause: rank 3 "), 1) << launcher->err();
    EXPECT_EQ(count(launcher->err(), "the others: ranks 0-2 exited with code 92, blaming rank 3"), 1) << launcher->err();
  }
}

}  // namespace
}  // namespace unisono::testing
