// `unisono run`: how jobs end, what is said of it, and restarts.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/file_descriptor.h"
#include "launch/job/supervisor.h"
#include "launch/process/memory_events.h"
#include "launched_jobs.h"

namespace unisono::testing {
namespace {

using std::chrono::milliseconds;

// ---- exit codes ------------------------------------------------------------------------------------------------

struct End {
  std::vector<std::string> arguments;
  int code;
  std::string said;
};

class FirstCauseOfJob : public ::testing::TestWithParam<End> {};

// K4, I5: the exit code of the command is the first cause's, and the summary names it.
TEST_P(FirstCauseOfJob, TheFirstCauseOfAJobIsItsExitCode) {
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
  RunningCommand job(run_helper({"-n", "4", "--grace", "1"}, {"signal", "2", "9"}));
  EXPECT_EQ(job.wait(), 137);
  EXPECT_EQ(count(job.err(), "[unisono] first cause: rank 2"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "[2] about to end"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "[unisono] | about to end"), 0) << "it stands right above\n" << job.err();
  EXPECT_EQ(count(job.err(), "[unisono] the others: ranks 0, 1, 3 ended by the launcher (SIGTERM)"), 1) << job.err();
}

TEST(LauncherEnding, OthersAreLeftAloneForTheGrace) {
  // Rank 1 fails as soon as rank 0 is there, which needs a moment longer and must not be disturbed.
  const TemporaryFolder folder;
  const std::string script = fmt::format(
      "[ $RANK = 1 ] && {{ until [ -e {0}/here ]; do sleep 0.05; done; exit 4; }}; trap 'echo disturbed' TERM; : > {0}/here; sleep 0.7; echo done",
      folder.path());
  RunningCommand job(unisono_command({"run", "-n", "2", "--", "/bin/sh", "-c", script}));
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

TEST(LauncherEnding, CtrlCAfterAFailureEndsTheOthersAtOnce) {
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
  job.send(SIGINT);  // which they do not answer
  EXPECT_EQ(job.wait(), 1);
}

TEST(LauncherEnding, NothingIsSaidWhereNobodyIsLeft) {
  RunningCommand job(run_helper({"-n", "1"}, {"exit", "0", "3"}));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_EQ(count(job.err(), "to end"), 0) << job.err();
}

// ---- a rank that the kernel has killed for want of memory --------------------------------------------------------

/// Rank 1 kills itself; `before`: what it does before that.
std::string report_of_killed_rank(const std::string& folder, const std::function<void()>& before,
                                  milliseconds period = launcher::MemoryEvents::usual_period) {
  ::testing::internal::CaptureStderr();
  const auto result = launcher::run_job({.ranks = 2,
                                         .function =
                                             [&](const base::Environment& environment) {
                                               if (*environment.get_int("RANK") == 0) return 0;
                                               before();
                                               return ::kill(::getpid(), SIGKILL);
                                             },
                                         .cgroup_folder = folder,
                                         .cgroup_period = period});
  EXPECT_EQ(result.exit_code, 137);
  return ::testing::internal::GetCapturedStderr();
}

TEST(LauncherEnding, OutOfMemoryIsNamedWhereTheCgroupSaysSo) {
  for (const auto& [file, text] :
       {std::pair("memory.events", "low 0\noom 4\noom_kill {}\n"), std::pair("memory.oom_control", "under_oom 0\noom_kill {}")}) {
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/" + file;
    std::ofstream(path) << fmt::format(fmt::runtime(text), 4);
    // As the kernel would.
    const std::string killed = report_of_killed_rank(folder.path(), [&] { std::ofstream(path) << fmt::format(fmt::runtime(text), 5); });
    EXPECT_EQ(count(killed, "ended by SIGKILL (out of memory)\n"), 1) << killed;
    EXPECT_EQ(count(killed, "hint: the kernel has killed it: memory ran out"), 1) << killed;
    // The counter stays: somebody else has killed it.
    const std::string other = report_of_killed_rank(folder.path(), [] {});
    EXPECT_EQ(count(other, "out of memory"), 0) << other;
    EXPECT_EQ(count(other, "hint: SIGKILL comes from outside"), 1) << other;
  }
  const TemporaryFolder empty;
  EXPECT_EQ(count(report_of_killed_rank(empty.path(), [] {}), "hint: SIGKILL comes from outside"), 1);
}

/// Waits until others have opened the file so many times more.
void wait_for_looks(const std::string& path, int looks) {
  const base::FileDescriptor watch(::inotify_init1(IN_CLOEXEC));
  if (::inotify_add_watch(watch.get(), path.c_str(), IN_OPEN) < 0) return;
  constexpr int most_ms = 30'000;
  for (pollfd entry{watch.get(), POLLIN, 0}; looks > 0 && ::poll(&entry, 1, most_ms) == 1;) {
    std::array<inotify_event, 16> events{};
    looks -= static_cast<int>(::read(watch.get(), events.data(), sizeof events) / static_cast<ssize_t>(sizeof(inotify_event)));
  }
}

// The counter of a cgroup is that of all its processes.
TEST(LauncherEnding, AKillOfLongAgoIsThatOfAnotherProcess) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/memory.events";
  std::ofstream(path) << "oom_kill 4\n";
  const auto is_counted = [&] {
    std::ofstream(path) << "oom_kill 5\n";
    wait_for_looks(path, 3);
  };
  const std::string killed = report_of_killed_rank(folder.path(), is_counted, milliseconds(50));
  EXPECT_EQ(count(killed, "out of memory"), 0) << killed;
  EXPECT_EQ(count(killed, "hint: SIGKILL comes from outside"), 1) << killed;
}

TEST(MemoryEvents, MemoryEventsAreTakenWhileTheyAreNew) {
  using std::chrono::seconds;
  const TemporaryFolder folder;
  const auto count_kills = [&](int kills) { std::ofstream(folder.path() + "/memory.events") << "oom_kill " << kills << "\n"; };
  count_kills(4);
  launcher::MemoryEvents events(folder.path(), seconds(5));
  auto now = base::Clock::now() + seconds(1);
  const auto pass = [&](seconds time) { events.tick(now += time); };
  EXPECT_FALSE(events.take_kill());
  count_kills(6);
  EXPECT_TRUE(events.take_kill());
  pass(seconds(5));
  EXPECT_TRUE(events.take_kill()) << "a process may take seconds to end";
  EXPECT_FALSE(events.take_kill()) << "each once";
  count_kills(8);
  pass(seconds(5));
  EXPECT_TRUE(events.take_kill());
  pass(seconds(4));
  pass(seconds(1));
  EXPECT_FALSE(events.take_kill()) << "two looks have found it";
  count_kills(9);
  EXPECT_TRUE(events.take_kill());
}

TEST(MemoryEvents, AFileThatCannotBeReadCountsNothing) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/memory.events");
  launcher::MemoryEvents events(folder.path());
  EXPECT_FALSE(events.take_kill());
}

// K9: SIGTERM after the grace, SIGKILL after another.
TEST(LauncherEnding, K9AWorkerThatIgnoresSigtermIsKilledAfterTheGrace) {
  RunningCommand job(run_helper({"-n", "3", "--grace", "2"}, stubborn_but_for_rank_zero()));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_EQ(count(job.out(), "caught 15"), 2) << job.out();
  EXPECT_EQ(count(job.err(), "ranks 1, 2 ended by the launcher (SIGKILL)"), 1) << job.err();
}

// K3: many at once are one summary with one cause.
TEST(LauncherEnding, K3HalfOfTheRanksKilledAtOnceEndTheJob) {
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

// ---- restarts --------------------------------------------------------------------------------------------------

// E1
TEST(LauncherEnding, E1AllRanksRestartAsANewAttempt) {
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

TEST(LauncherEnding, E1RanksThatStillRunAreEndedBeforeARestart) {
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

}  // namespace
}  // namespace unisono::testing
