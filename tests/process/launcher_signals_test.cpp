// `unisono run`: signals, and that no process of a job outlives it.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "launched_jobs.h"

namespace unisono::testing {
namespace {

using std::chrono::milliseconds;

// ---- no orphans ------------------------------------------------------------------------------------------------

class LauncherKilled : public ::testing::TestWithParam<std::vector<std::string>> {};

// K7, B3: also what a rank has started, whatever session it is in.
TEST_P(LauncherKilled, K7AKilledLauncherLeavesNobody) {
  RunningCommand job(run_helper({"-n", "2"}, GetParam()));
  ASSERT_TRUE(job.until_out_has("ready", 2));
  const std::string id = job_of(job);
  const int grandchildren = GetParam().front() == "leave-child" ? 2 : 0;
  ASSERT_TRUE(job.until_out_has("grandchild", grandchildren));
  EXPECT_EQ(processes_of_job(id).size(), 2u + static_cast<unsigned>(grandchildren));
  job.send(SIGKILL);
  expect_nothing_left(id);
  EXPECT_EQ(job.wait(), 137);
}

using Words = std::vector<std::string>;
INSTANTIATE_TEST_SUITE_P(Launcher, LauncherKilled,
                         ::testing::Values(Words{"rest"}, Words{"stubborn"}, Words{"leave-child", "group", "rest"},
                                           Words{"leave-child", "session", "rest"}));

class GrandchildOutlives : public ::testing::TestWithParam<std::string> {};

// K10: what outlives its rank does not outlive the job.
TEST_P(GrandchildOutlives, K10AGrandchildThatOutlivesIsEnded) {
  RunningCommand job(run_helper({"-n", "2"}, {"leave-child", GetParam(), "exit"}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(count(job.out(), "grandchild"), 2) << job.out();
  for (int rank = 0; rank < 2; ++rank) EXPECT_FALSE(is_alive(std::stoi(word_after(job.out(), tag(rank) + "grandchild "))));
  expect_nothing_left(job_of(job));
}

INSTANTIATE_TEST_SUITE_P(Launcher, GrandchildOutlives, ::testing::Values("group", "session"));

TEST(LauncherEnding, AJobWithinAJobEndsWithIt) {
  RunningCommand job(run_helper({"-n", "1"}, {"rest"}));
  ASSERT_TRUE(job.until_out_has("ready"));
  RunningCommand outer(
      unisono_command({"run", "-n", "2", "--", UNISONO_COMMAND, "run", "-n", "2", "--", RANK_HELPER, "leave-child", "group", "rest"}));
  ASSERT_TRUE(outer.until_out_has("grandchild", 4));
  ASSERT_TRUE(outer.until_out_has("ready", 4));
  std::vector<pid_t> all;
  for (const auto& line : lines_of(outer.out())) {
    for (const char* key : {"ready ", "grandchild "}) {
      if (const std::string pid = word_after(line, key); !pid.empty()) all.push_back(std::stoi(pid));
    }
  }
  ASSERT_EQ(all.size(), 8u);
  outer.send(SIGKILL);
  for (const pid_t pid : all) EXPECT_TRUE(eventually([&] { return !is_alive(pid); })) << pid;
  EXPECT_TRUE(is_alive(pid_of(job, 0)));  // another job is none of its business
}

TEST(LauncherEnding, TheWatchdogGoesWithTheJob) {
  RunningCommand job(run_helper({"-n", "1"}, {"rest"}));
  ASSERT_TRUE(job.until_out_has("ready"));
  std::vector<pid_t> children;
  for (const auto& word : lines_of(contents(fmt::format("/proc/{}/task/{}/children", job.pid(), job.pid())))) {
    std::size_t at = 0;
    while (at < word.size()) {
      std::size_t used = 0;
      children.push_back(std::stoi(word.substr(at), &used));
      at += used + 1;
    }
  }
  if (children.empty()) GTEST_SKIP() << "skipped: the kernel does not list children";
  EXPECT_EQ(children.size(), 2u);
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 143);
  for (const pid_t pid : children) EXPECT_FALSE(is_alive(pid));
}

// ---- signals ---------------------------------------------------------------------------------------------------

class EndingSignal : public ::testing::TestWithParam<int> {};

// K8
TEST_P(EndingSignal, K8AnEndingSignalIsHandedOnAndIsTheExitCode) {
  RunningCommand job(run_helper({"-n", "2", "--grace", "2"}, {"stubborn"}));
  ASSERT_TRUE(job.until_out_has("ready", 2));
  job.send(GetParam());
  EXPECT_EQ(job.wait(), 128 + GetParam());
  const std::string number = (GetParam() < 10 ? "0" : "") + std::to_string(GetParam());
  EXPECT_EQ(count(job.out(), "caught " + number), 2) << job.out();
  expect_nothing_left(job_of(job));
}

TEST_P(EndingSignal, K8AnEndingSignalEndsRanksThatHeedIt) {
  RunningCommand job(run_helper({"-n", "2"}, {"rest"}));
  ASSERT_TRUE(job.until_out_has("ready", 2));
  job.send(GetParam());
  EXPECT_EQ(job.wait(milliseconds(12'000)), 128 + GetParam());  // far before the grace of 15 s
  expect_nothing_left(job_of(job));
}

INSTANTIATE_TEST_SUITE_P(Launcher, EndingSignal, ::testing::Values(SIGINT, SIGTERM, SIGHUP, SIGQUIT));

TEST(LauncherEnding, K8ASecondCtrlCKillsAtOnce) {
  RunningCommand job(run_helper({"-n", "2", "--grace", "1000"}, {"stubborn"}));
  ASSERT_TRUE(job.until_out_has("ready", 2));
  job.send(SIGINT);
  ASSERT_TRUE(job.until_out_has("caught 02", 2));
  EXPECT_FALSE(job.until([&] { return count(job.err(), "again") > 0; }, milliseconds(1100))) << job.err();  // at once it would be the same request
  job.send(SIGINT);
  EXPECT_EQ(job.wait(), 130);
  EXPECT_NE(job.err().find("again"), std::string::npos) << job.err();
  expect_nothing_left(job_of(job));
}

// GNU timeout signals its child and then its process group; Slurm and systemd do alike. The ranks keep their grace, and what they write in it.
TEST(LauncherEnding, TheSameSignalTwiceAtOnceIsOneRequest) {
  for (const int signal : {SIGTERM, SIGINT}) {
    RunningCommand job(run_helper({"-n", "2", "--grace", "1000"}, {"stubborn"}));
    ASSERT_TRUE(job.until_out_has("ready", 2));
    for (int i = 0; i < 3; ++i) job.send(signal);
    ASSERT_TRUE(job.until_out_has(signal == SIGTERM ? "caught 15" : "caught 02", 2)) << job.out() << job.err();
    job.send(signal);
    EXPECT_FALSE(job.until([&] { return count(job.err(), "again") > 0; }, milliseconds(300))) << job.err();
    for (int rank = 0; rank < 2; ++rank) EXPECT_TRUE(is_alive(pid_of(job, rank)));
    EXPECT_EQ(count(job.out(), "caught"), 2) << job.out();
    job.send(signal == SIGTERM ? SIGINT : SIGTERM);  // another one is another request
    EXPECT_EQ(job.wait(), 128 + signal);
    expect_nothing_left(job_of(job));
  }
}

// The rank's own process decides when its helpers end: workers that load data would be missed amid a checkpoint.
TEST(LauncherEnding, HelpersOfARankDoNotHearOfTheSignal) {
  RunningCommand job(run_helper({"-n", "2", "--grace", "1000"}, {"helped"}));
  ASSERT_TRUE(job.until_out_has("ready", 2));
  std::vector<pid_t> helpers;
  for (int rank = 0; rank < 2; ++rank) helpers.push_back(std::stoi(word_after(job.out(), tag(rank) + "grandchild ")));
  for (const auto& [signal, said] :
       std::vector<std::pair<int, std::string>>{{SIGUSR1, "caught 10"}, {SIGUSR2, "caught 12"}, {SIGTERM, "caught 15"}}) {
    job.send(signal);
    ASSERT_TRUE(job.until_out_has(said, 2)) << job.out() << job.err();
    EXPECT_FALSE(job.until([&] { return !is_alive(helpers[0]) || !is_alive(helpers[1]); }, milliseconds(200))) << said;
  }
  job.send(SIGQUIT);  // kills all
  EXPECT_EQ(job.wait(), 143);
  for (const pid_t helper : helpers) EXPECT_FALSE(is_alive(helper));
  expect_nothing_left(job_of(job));
}

// A shell that the signal ends at once hands nothing on. The program that it has left is asked then, and has the grace, too.
TEST(LauncherEnding, TheProgramOfAWrapperHasTheGraceToo) {
  const std::string program = "trap 'sleep 1.5; echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done";
  RunningCommand job(unisono_command({"run", "-n", "2", "--", "/bin/sh", "-c", "/bin/sh -c \"$0\"; true", program}));
  ASSERT_TRUE(job.until_out_has("up\n", 2)) << job.err();
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 143) << job.err();
  EXPECT_EQ(count(job.out(), "saved\n"), 2) << job.out();
}

// Slurm signals all processes of a job. A rank that ends before the launcher has seen its own signal has not failed.
TEST(LauncherEnding, ARankThatTheSameSignalHasEndedIsNoFirstCause) {
  RunningCommand job(run_helper({"-n", "2"}, {"rest"}));
  ASSERT_TRUE(job.until_out_has("ready", 2));
  job.send(SIGSTOP);
  ASSERT_TRUE(eventually([&] { return state_of(job.pid()) == 'T'; }));  // until then it may see the end of the rank
  ::kill(pid_of(job, 1), SIGTERM);
  EXPECT_TRUE(eventually([&] { return !is_alive(pid_of(job, 1)); }));
  job.send(SIGTERM);
  job.send(SIGCONT);
  EXPECT_EQ(job.wait(), 143) << job.err();
  EXPECT_EQ(count(job.err(), "first cause"), 0) << job.err();
  EXPECT_EQ(count(job.err(), "SIGTERM: handed on"), 1) << job.err();
}

TEST(LauncherEnding, StoppedRanksHearTheSignalToo) {
  RunningCommand job(run_helper({"-n", "2", "--grace", "1000"}, {"rest"}));
  ASSERT_TRUE(job.until_out_has("ready", 2));
  ::kill(pid_of(job, 1), SIGSTOP);
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 143);
}

TEST(LauncherEnding, NohupKeepsTheJob) {
  RunningCommand job({"/bin/sh", "-c", std::string("trap '' HUP; exec ") + UNISONO_COMMAND + " run -n 2 -- " + RANK_HELPER + " rest"});
  ASSERT_TRUE(job.until_out_has("ready", 2));
  job.send(SIGHUP);
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 143);
  EXPECT_EQ(count(job.err(), "SIGHUP"), 0) << job.err();
}

TEST(LauncherEnding, UserSignalsAreHandedOnAndTheJobGoesOn) {
  RunningCommand job(run_helper({"-n", "2", "--forward-signal", "WINCH", "--grace", "0.2"}, {"stubborn"}));
  ASSERT_TRUE(job.until_out_has("ready", 2));
  job.send(SIGUSR1);
  ASSERT_TRUE(job.until_out_has("caught 10", 2));
  job.send(SIGUSR2);
  ASSERT_TRUE(job.until_out_has("caught 12", 2));
  job.send(SIGWINCH);
  ASSERT_TRUE(job.until_out_has("caught 28", 2));
  EXPECT_TRUE(is_alive(pid_of(job, 0)));
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 143);
}

}  // namespace
}  // namespace unisono::testing
