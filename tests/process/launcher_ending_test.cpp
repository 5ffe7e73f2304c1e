// `unisono run`: how jobs end, and that nothing is left of them.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "launch/supervisor.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

using std::chrono::milliseconds;

std::string job_of(const RunningCommand& job) {
  const std::string pid = word_after(job.out(), "[0] ready ");
  return word_after(job.out(), "[0] ready " + pid + " ");
}

pid_t pid_of(const RunningCommand& job, int rank) { return std::stoi(word_after(job.out(), tag(rank) + "ready ")); }

/// Ranks 1 and 2 answer SIGTERM and go on; rank 0 exits with 3 as soon as they are ready to.
std::vector<std::string> stubborn_but_for_rank_zero() {
  return {"play", "wait 1;wait 2;exit 3", "answer;say ready;tell 1;rest", "answer;say ready;tell 2;rest"};
}

void expect_nothing_left(const std::string& id) {
  ASSERT_EQ(id.size(), 32u);
  EXPECT_TRUE(eventually([&] { return processes_of_job(id).empty(); })) << processes_of_job(id).size() << " processes are left";
}

// ---- exit codes ------------------------------------------------------------------------------------------------

struct End {
  std::vector<std::string> arguments;
  int code;
  std::string said;
};

class FirstCauseOfJob : public ::testing::TestWithParam<End> {};

// K4, I5: the exit code of the command is the first cause's, and the summary names it.
TEST_P(FirstCauseOfJob, IsTheExitCode) {
  RunningCommand job(run_helper({"-n", "3", "--grace", "0.2"}, GetParam().arguments));
  EXPECT_EQ(job.wait(), GetParam().code);
  EXPECT_NE(job.err().find(GetParam().said), std::string::npos) << job.err();
}

INSTANTIATE_TEST_SUITE_P(Launcher, FirstCauseOfJob,
                         ::testing::Values(End{{"exit", "1", "7"}, 7, "rank 1 ("}, End{{"exit", "0", "1"}, 1, "rank 0"},
                                           End{{"exit", "2", "255"}, 255, "rank 2"}, End{{"signal", "1", "9"}, 137, "SIGKILL"},
                                           End{{"signal", "0", "11"}, 139, "SIGSEGV"}, End{{"signal", "2", "6"}, 134, "SIGABRT"},
                                           End{{"signal", "1", "15"}, 143, "SIGTERM"}));

TEST(LauncherEnding, SuccessIsSilent) {
  RunningCommand job(run_helper({"-n", "4"}, {"exit", "9", "0"}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out() + job.err(), "");
}

TEST(LauncherEnding, TheSummaryNamesTheCauseItsLastLinesAndTheOthers) {
  RunningCommand job(run_helper({"-n", "4", "--grace", "0.2"}, {"signal", "2", "9"}));
  EXPECT_EQ(job.wait(), 137);
  EXPECT_EQ(count(job.err(), "[unisono] first cause: rank 2"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "[2] about to end"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "[unisono] | about to end"), 0) << "it stands right above\n" << job.err();
  EXPECT_EQ(count(job.err(), "[unisono] the others: ranks 0, 1, 3 ended by the launcher (SIGTERM)"), 1) << job.err();
}

TEST(LauncherEnding, OthersAreLeftAloneForTheGrace) {
  // Rank 1 fails at once; rank 0 needs a moment longer and must not be disturbed.
  RunningCommand job(
      unisono_command({"run", "-n", "2", "--", "/bin/sh", "-c", "[ $RANK = 1 ] && exit 4; trap 'echo disturbed' TERM; sleep 0.7; echo done"}));
  EXPECT_EQ(job.wait(), 4);
  EXPECT_EQ(count(job.out(), "[0] done"), 1) << job.out();
  EXPECT_EQ(count(job.out(), "disturbed"), 0);
}

// ---- what is said at once, and who waits how long ----------------------------------------------------------------

/// The line that says it, without what stands before it.
std::string said_at_once(const RunningCommand& job) {
  for (const std::string& line : lines_of(job.err())) {
    if (line.starts_with("[unisono]") && line.find(" to end") != std::string::npos) return line;
  }
  return "";
}

// Ranks 0 and 1 are in a group with rank 2, and have the whole grace; they go on until somebody types.
TEST(LauncherEnding, AFailureIsSaidAtOnce) {
  RunningCommand job(run_helper({"-n", "3", "--grace", "1000"}, {"play", "set initialized;tell a;read;tell go;exit 0",
                                                                 "set initialized;tell b;wait go;exit 0", "set initialized;wait a;wait b;exit 1"}));
  ASSERT_TRUE(job.until_err_has("(Ctrl-C: now)")) << job.err();
  EXPECT_EQ(said_at_once(job), "[unisono] rank 2 exited with code 1; the others have 1000 s to end (Ctrl-C: now)");
  EXPECT_LE(said_at_once(job).size(), 80U);
  job.type("\n");
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(count(job.err(), "ended by the launcher"), 0) << job.err();
}

TEST(LauncherEnding, AfterAFailureCtrlCEndsTheOthersAtOnce) {
  RunningCommand job(run_helper({"-n", "2", "--grace", "1000"}, {"play", "set initialized;tell a;rest", "set initialized;wait a;exit 5"}));
  ASSERT_TRUE(job.until_err_has("the other has 1000 s to end")) << job.err();
  job.send(SIGINT);
  EXPECT_EQ(job.wait(), 5);
  EXPECT_EQ(count(job.err(), "rank 0 ended by the launcher (SIGINT)"), 1) << job.err();
}

// Nobody tells ranks that have never initialized: they do not keep the job for the whole grace.
TEST(LauncherEnding, RanksInNoGroupHaveTwoSeconds) {
  RunningCommand job(run_helper({"-n", "3", "--grace", "1000"}, {"signal", "1", "9"}));
  EXPECT_EQ(job.wait(), 137);
  EXPECT_EQ(said_at_once(job), "[unisono] rank 1 ended by SIGKILL; the others have 2 s to end (Ctrl-C: now)");
  EXPECT_EQ(count(job.err(), "ranks 0, 2 ended by the launcher (SIGTERM)"), 1) << job.err();
}

// Also where the one that failed has never initialized, and the others have.
TEST(LauncherEnding, RanksInNoGroupWithTheOneThatFailedHaveTwoSeconds) {
  RunningCommand job(run_helper({"-n", "2", "--grace", "1000"}, {"play", "set initialized;tell a;rest", "wait a;exit 6"}));
  EXPECT_EQ(job.wait(), 6);
  EXPECT_EQ(count(job.err(), "the other has 2 s to end"), 1) << job.err();
}

// Rank 0 is in a group with rank 2, rank 1 is not: it is asked to end after two seconds, and rank 0 is not.
TEST(LauncherEnding, EachRankWaitsAsLongAsItsGroupLets) {
  RunningCommand job(run_helper({"-n", "3", "--grace", "1000"}, {"play", "answer;set initialized;tell a;read;exit 0", "answer;tell b;wait c;exit 0",
                                                                 "set initialized;wait a;wait b;exit 1"}));
  ASSERT_TRUE(job.until_out_has("[1] caught 15")) << job.err();
  EXPECT_EQ(said_at_once(job), "[unisono] rank 2 exited with code 1; the others have 1000 s to end, those in no group with it 2 s (Ctrl-C: now)");
  EXPECT_FALSE(job.until([&] { return count(job.out(), "[0] caught 15") > 0; }, milliseconds(300))) << job.out();
  job.send(SIGINT);
  job.send(SIGINT);
  EXPECT_EQ(job.wait(), 1);
}

TEST(LauncherEnding, NothingIsSaidWhereNobodyIsLeft) {
  RunningCommand job(run_helper({"-n", "1"}, {"exit", "0", "3"}));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_EQ(count(job.err(), "to end"), 0) << job.err();
}

// ---- a rank that the kernel has killed for want of memory --------------------------------------------------------

/// Rank 1 kills itself; `before`: what it writes into the file of its cgroup, as the kernel would.
std::string report_of_killed_rank(const std::string& folder, const std::string& file, const std::string& before) {
  ::testing::internal::CaptureStderr();
  const auto result = launcher::run_job({.ranks = 2,
                                         .function =
                                             [&](const base::Environment& environment) {
                                               if (*environment.get_int("RANK") == 0) return 0;
                                               if (!before.empty()) std::ofstream(folder + "/" + file) << before;
                                               return ::kill(::getpid(), SIGKILL);
                                             },
                                         .cgroup_folder = folder});
  EXPECT_EQ(result.exit_code, 137);
  return ::testing::internal::GetCapturedStderr();
}

TEST(LauncherEnding, OutOfMemoryIsNamedWhereTheCgroupSaysSo) {
  for (const auto& [file, text] :
       {std::pair("memory.events", "low 0\noom 4\noom_kill {}\n"), std::pair("memory.oom_control", "under_oom 0\noom_kill {}")}) {
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/" + file;
    std::ofstream(path) << fmt::format(fmt::runtime(text), 4);
    const std::string killed = report_of_killed_rank(folder.path(), file, fmt::format(fmt::runtime(text), 5));
    EXPECT_EQ(count(killed, "ended by SIGKILL (out of memory)\n"), 1) << killed;
    EXPECT_EQ(count(killed, "hint: the kernel has killed it: memory ran out"), 1) << killed;
    // The counter stays: somebody else has killed it.
    const std::string other = report_of_killed_rank(folder.path(), file, "");
    EXPECT_EQ(count(other, "out of memory"), 0) << other;
    EXPECT_EQ(count(other, "hint: SIGKILL comes from outside"), 1) << other;
  }
  const TemporaryFolder empty;
  EXPECT_EQ(count(report_of_killed_rank(empty.path(), "", ""), "hint: SIGKILL comes from outside"), 1);
}

// ---- a Mismatch that nobody catches ------------------------------------------------------------------------------

// Whichever rank the launcher sees first: rank 1 has called something else than the three others.
TEST(LauncherEnding, OfAMismatchTheRankThatDiffersIsTheFirstCause) {
  for (const char* how : {"uncaught", "unwound", "caught"}) {
    RunningCommand job(run_helper({"-n", "4"}, {"mismatch", "1", how}));
    EXPECT_EQ(job.wait(), std::string(how) == "uncaught" ? 134 : 11) << job.err();
    EXPECT_EQ(count(job.err(), "[unisono] first cause: rank 1 "), 1) << job.err();
    const std::string calls = "rank 1 all_reduce(float32 × 3, sum), ranks 0, 2, 3 all_reduce(float32 × 2, sum) [culprit: rank 1 on ";
    for (int rank = 0; rank < 4; ++rank) {
      const auto says = [&](const std::string& line) { return line.starts_with(tag(rank)) && line.find(calls) != std::string::npos; };
      const auto lines = lines_of(job.err());
      const auto line = std::ranges::find_if(lines, says);
      ASSERT_NE(line, lines.end()) << how << ", rank " << rank << "\n" << job.err();
      EXPECT_EQ(line->find("this rank another than most: ") != std::string::npos, rank == 1) << *line;
    }
  }
}

// By its rank in the world, though the group calls it otherwise; and a finalize of all of them does not make it forgotten.
TEST(LauncherEnding, OfAMismatchInAGroupTooTheRankThatDiffersIsTheFirstCause) {
  for (int again = 0; again < 4; ++again) {  // one that nobody tells may be the first to end by chance
    RunningCommand job(run_helper({"-n", "4"}, {"mismatch", "2", "in-a-group"}));
    EXPECT_EQ(job.wait(), 12) << job.err();
    EXPECT_EQ(count(job.err(), "[unisono] first cause: rank 2 "), 1) << job.err();
    EXPECT_EQ(count(job.err(), "this rank another than most: rank 1 all_reduce(float32 × 3, sum), ranks 0, 2 all_reduce(float32 × 2, sum)"), 1)
        << job.err();
  }
}

TEST(LauncherEnding, OfTwoRanksOfAGroupNobodyIsTheFirstCause) {
  RunningCommand job(run_helper({"-n", "3"}, {"mismatch", "2", "in-a-pair"}));
  const int code = job.wait();
  EXPECT_TRUE(code == 10 || code == 12) << code;
  EXPECT_EQ(count(job.err(), "first cause: the ranks called different things: "), 1) << job.err();
}

// By its rank in the world. The others have failed because of it, though they end before.
TEST(LauncherEnding, WhoeverGivesUpAGroupIsTheFirstCause) {
  RunningCommand job(run_helper({"-n", "3"}, {"give-up-a-group"}));
  EXPECT_EQ(job.wait(), 11) << job.err();
  EXPECT_EQ(count(job.err(), "[unisono] first cause: rank 1 "), 1) << job.err();
}

TEST(LauncherEnding, OfTwoRanksNobodyIsTheFirstCause) {
  RunningCommand job(run_helper({"-n", "2"}, {"mismatch", "1", "caught"}));
  const int code = job.wait();
  EXPECT_TRUE(code == 10 || code == 11) << code;
  EXPECT_EQ(
      count(job.err(), "first cause: the ranks called different things: rank 0 all_reduce(float32 × 2, sum), rank 1 all_reduce(float32 × 3, sum)"), 1)
      << job.err();
  EXPECT_EQ(count(job.err(), "culprit"), 0) << job.err();
}

// A Mismatch that was caught, after which the job went on, is no cause of what happens later.
TEST(LauncherEnding, AMismatchThatWasCaughtIsForgotten) {
  RunningCommand job(run_helper({"-n", "3"}, {"mismatch", "1", "goes-on"}));
  EXPECT_EQ(job.wait(), 9);
  EXPECT_EQ(count(job.err(), "first cause: rank 2 "), 1) << job.err();
}

// K9: SIGTERM after the grace, SIGKILL after another.
TEST(LauncherEnding, K9AWorkerThatIgnoresSigtermIsKilledAfterTheGrace) {
  RunningCommand job(run_helper({"-n", "3", "--grace", "2"}, stubborn_but_for_rank_zero()));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_EQ(count(job.out(), "caught 15"), 2) << job.out();
  EXPECT_EQ(count(job.err(), "ranks 1, 2 ended by the launcher (SIGKILL)"), 1) << job.err();
}

// K3: many at once are one summary with one cause.
TEST(LauncherEnding, K3HalfOfTheRanksKilledAtOnce) {
  RunningCommand job(run_helper({"-n", "4", "--grace", "2"}, {"rest"}));
  ASSERT_TRUE(job.until_out_has("ready", 4));
  const pid_t second = pid_of(job, 1), fourth = pid_of(job, 3);
  ::kill(second, SIGKILL);
  ::kill(fourth, SIGKILL);
  EXPECT_EQ(job.wait(), 137);
  EXPECT_EQ(count(job.err(), "first cause"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "rank 1 (pid") + count(job.err(), "rank 3 (pid"), 1) << job.err();
  EXPECT_GE(count(job.err(), "ended by SIGKILL"), 2) << job.err();
  EXPECT_EQ(count(job.err(), "ranks 0, 2 ended by the launcher (SIGTERM)"), 1) << job.err();
}

// ---- what ranks say of themselves in the store -----------------------------------------------------------------

TEST(LauncherStatus, K4LeavingWithoutFinalizeIsAnErrorWithCodeOne) {
  RunningCommand job(run_helper({"-n", "2", "--grace", "0.2"}, {"play", "set initialized;rest", "set initialized;exit 0"}));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(count(job.err(), "first cause: rank 1"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "left without finalize (exit code 0)"), 1) << job.err();
}

// K4: only who was asked to initialize owes a finalize.
TEST(LauncherStatus, AnAdoptedJobNeedsNoFinalize) {
  RunningCommand job(run_helper({"-n", "2"}, {"adopted"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(count(job.err(), "without finalize"), 0) << job.err();
}

TEST(LauncherStatus, FinalizedRanksMayLeaveEarly) {
  RunningCommand job(
      run_helper({"-n", "2"}, {"play", "set initialized;wait gone;set finalized;exit 0", "set initialized;set finalized;tell gone;exit 0"}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.err(), "");
}

// Seen to end first, and still not the cause; an uncaught PeerFailed is a SIGABRT.
TEST(LauncherStatus, SurvivorsThatFailBecauseOfAPeerAreNotTheCause) {
  RunningCommand job(
      run_helper({"-n", "3"}, {"play", "set initialized;set poisoned 2 rank 2 was killed;tell a;exit 1",
                               "set initialized;set poisoned 2 rank 2 was killed;tell b;kill 6", "set initialized;wait a;wait b;kill 9"}));
  EXPECT_EQ(job.wait(), 137);
  EXPECT_EQ(count(job.err(), "first cause: rank 2"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "rank 0 exited with code 1, blaming rank 2"), 1) << job.err();
}

TEST(LauncherStatus, APoisonedGroupNeedsNoFinalize) {
  RunningCommand job(run_helper({"-n", "2"}, {"play", "set initialized;set poisoned 1 it said so;tell a;exit 0", "set initialized;wait a;exit 6"}));
  EXPECT_EQ(job.wait(), 6);
  EXPECT_EQ(count(job.err(), "without finalize"), 0) << job.err();
}

TEST(LauncherStatus, AJobThatGoesOnAfterShrinkingIsNotEnded) {
  RunningCommand job(
      run_helper({"-n", "3", "--grace", "0.2"},
                 {"play", "answer;set initialized;set shrunk;say smaller;tell a;read;tell go;set finalized;exit 0",
                  "answer;set initialized;set shrunk;say smaller;tell b;wait go;set finalized;exit 0", "set initialized;wait a;wait b;kill 9"}));
  ASSERT_TRUE(job.until_out_has("smaller", 2));
  EXPECT_FALSE(job.until([&] { return count(job.out(), "caught 15") > 0; }, milliseconds(1000))) << job.out();
  job.type("\n");
  EXPECT_EQ(job.wait(), 137);  // a rank was lost all the same
  EXPECT_EQ(count(job.err(), "ranks 0, 1 exited with code 0"), 1) << job.err();
}

TEST(LauncherStatus, AJobThatOnlySomeHaveShrunkIsEnded) {
  RunningCommand job(
      run_helper({"-n", "3", "--grace", "0.2"}, {"play", "set initialized;set shrunk;tell a;rest",
                                                 "set initialized;set poisoned 2 killed;tell b;rest", "set initialized;wait a;wait b;kill 9"}));
  EXPECT_EQ(job.wait(), 137);
  EXPECT_EQ(count(job.err(), "ranks 0, 1 ended by the launcher (SIGTERM)"), 1) << job.err();
}

TEST(LauncherStatus, E1EachAttemptHasAFreshStore) {
  RunningCommand job(run_helper({"-n", "1", "--max-restarts", "1"}, {"play", "set initialized;exit 0"}));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(count(job.err(), "left without finalize"), 2) << job.err();
}

// ---- no orphans ------------------------------------------------------------------------------------------------

class LauncherKilled : public ::testing::TestWithParam<std::vector<std::string>> {};

// K7, B3: also what a rank has started, whatever session it is in.
TEST_P(LauncherKilled, K7LeavesNobody) {
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
TEST_P(GrandchildOutlives, K10IsEnded) {
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
TEST_P(EndingSignal, K8IsHandedOnAndIsTheExitCode) {
  RunningCommand job(run_helper({"-n", "2", "--grace", "2"}, {"stubborn"}));
  ASSERT_TRUE(job.until_out_has("ready", 2));
  job.send(GetParam());
  EXPECT_EQ(job.wait(), 128 + GetParam());
  const std::string number = (GetParam() < 10 ? "0" : "") + std::to_string(GetParam());
  EXPECT_EQ(count(job.out(), "caught " + number), 2) << job.out();
  expect_nothing_left(job_of(job));
}

TEST_P(EndingSignal, K8EndsRanksThatHeedIt) {
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
  job.send(SIGINT);
  EXPECT_EQ(job.wait(), 130);
  EXPECT_NE(job.err().find("again"), std::string::npos) << job.err();
  expect_nothing_left(job_of(job));
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

// ---- restarts --------------------------------------------------------------------------------------------------

// E1
TEST(LauncherEnding, E1RestartsAllRanksAsANewAttempt) {
  TemporaryFolder logs;
  RunningCommand job(run_helper({"-n", "2", "--max-restarts", "3", "--logs", logs.path()}, {"fail-until-attempt", "2"}));
  EXPECT_EQ(job.wait(), 0);
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_EQ(count(job.out(), fmt::format("] attempt {}\n", attempt)), 2) << job.out();
  }
  EXPECT_EQ(count(job.err(), "first cause: rank 1 "), 2) << job.err();
  EXPECT_EQ(count(job.err(), "restart 1 of 3 in 1 s"), 1);
  EXPECT_EQ(count(job.err(), "restart 2 of 3 in 2 s"), 1);
  EXPECT_EQ(contents(logs.path() + "/latest/rank-1.log"), "attempt 0\n");
  EXPECT_EQ(contents(logs.path() + "/latest/rank-0.attempt-2.log"), "attempt 2\n");
}

TEST(LauncherEnding, E1EndsRanksThatStillRunBeforeARestart) {
  RunningCommand job(run_helper({"-n", "3", "--max-restarts", "1", "--grace", "2"}, stubborn_but_for_rank_zero()));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_EQ(count(job.out(), "ready"), 4) << job.out();
  EXPECT_EQ(count(job.out(), "caught 15"), 4) << job.out();
}

// E2
TEST(LauncherEnding, E2ACrashLoopStopsAfterTheLastRestart) {
  RunningCommand job(run_helper({"-n", "2", "--max-restarts", "1"}, {"exit", "0", "9"}));
  EXPECT_EQ(job.wait(), 9);
  EXPECT_EQ(count(job.err(), "first cause"), 2);
}

TEST(LauncherEnding, CtrlCWhileWaitingForARestartEndsTheJob) {
  RunningCommand job(run_helper({"-n", "2", "--max-restarts", "9"}, {"exit", "0", "9"}));
  ASSERT_TRUE(job.until_err_has("restart 2 of 9"));
  job.send(SIGINT);
  EXPECT_EQ(job.wait(), 130);
}

// ---- the supervisor as a library -------------------------------------------------------------------------------

TEST(Supervisor, RunsAFunctionInEveryRank) {
  const auto result = launcher::run_job({.ranks = 3,
                                         .function = [](const base::Environment& environment) { return 10 + *environment.get_int("RANK"); },
                                         .grace = milliseconds(30'000)});
  ASSERT_EQ(result.ends.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(result.ends[static_cast<std::size_t>(rank)].code, 10 + rank);
  ASSERT_TRUE(result.first_cause.has_value());
  EXPECT_EQ(result.exit_code, result.ends[*result.first_cause].code);
}

TEST(Supervisor, TellsHowEachRankEnded) {
  const auto result = launcher::run_job({.ranks = 3,
                                         .function =
                                             [](const base::Environment& environment) {
                                               const int rank = *environment.get_int("RANK");
                                               if (rank == 1) ::kill(::getpid(), SIGKILL);
                                               if (rank == 2) throw std::runtime_error("rank 2 does not like it");
                                               return 0;
                                             },
                                         .grace = milliseconds(30'000),
                                         .output = launcher::OutputMode::inherited,
                                         .signals = launcher::SignalMode::left});
  EXPECT_EQ(result.exit_code, 137);
  ASSERT_TRUE(result.first_cause.has_value());
  EXPECT_EQ(*result.first_cause, 1u);
  EXPECT_EQ(result.ends[0].exit_code(), 0);
  EXPECT_EQ(result.ends[1].exit_code(), 137);
  EXPECT_EQ(result.ends[2].exit_code(), 1);
  EXPECT_EQ(result.attempts, 1);
}

TEST(Supervisor, RefusesOptionsThatMakeNoSense) {
  const auto nothing = [](const base::Environment&) { return 0; };
  EXPECT_THROW(launcher::run_job({.ranks = 0, .function = nothing}), InvalidArgument);
  EXPECT_THROW(launcher::run_job({.ranks = 1}), InvalidArgument);
  EXPECT_THROW(launcher::run_job({.ranks = 1, .command = {"true"}, .function = nothing}), InvalidArgument);
  EXPECT_THROW(launcher::run_job({.ranks = 1, .function = nothing, .max_restarts = -1}), InvalidArgument);
  EXPECT_THROW(launcher::run_job({.ranks = 1, .function = nothing, .grace = milliseconds(-1)}), InvalidArgument);
  EXPECT_THROW(launcher::run_job({.ranks = 1, .command = {"/no/such/program"}}), launcher::StartFailed);
}

TEST(Supervisor, LeavesNoDescriptorOpenAndNoSignalChanged) {
  sigset_t before, after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  const int first_free = ::dup(0);
  ::close(first_free);
  launcher::run_job({.ranks = 4, .command = {"true"}});
  const int free_now = ::dup(0);
  ::close(free_now);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(free_now, first_free);
  for (int signal = 1; signal < NSIG; ++signal) EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
  struct sigaction pipe {};
  ::sigaction(SIGPIPE, nullptr, &pipe);
  EXPECT_EQ(pipe.sa_handler, SIG_DFL);
}

}  // namespace
}  // namespace unisono::testing
