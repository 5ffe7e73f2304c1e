// `unisono run`: what ranks write, and where it goes.

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "covers.h"
#include "launch/output/rank_stream.h"
#include "launched_jobs.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

std::string numbered_lines(int rank, long bytes) {
  std::string text;
  for (long i = 0; static_cast<long>(text.size()) < bytes; ++i) text += fmt::format("line {} of rank {}\n", i, rank);
  return text;
}

std::string log_of(const TemporaryFolder& folder, int rank) { return fmt::format("{}/latest/rank-{}.log", folder.path(), rank); }

/// The lines of one rank, without its prefix.
std::string output_of(int rank, const std::string& all) {
  const std::string prefix = tag(rank);
  std::string text;
  for (const auto& line : lines_of(all)) {
    if (line.starts_with(prefix)) text += line.substr(prefix.size()) + "\n";
  }
  return text;
}

// The runtime's message of an exception that nobody catches names the rank.
TEST(LauncherOutput, AnUncaughtExceptionIsItsRanks) {
  COVERS("TS-45");
  RunningCommand job(run_helper({"-n", "3", "--grace", "1"}, {"throw", "1"}));
  EXPECT_EQ(job.wait(), 128 + SIGABRT) << job.err();
  for (const auto& line : lines_of(job.err())) EXPECT_TRUE(line.starts_with("[1] ") || line.starts_with("[unisono] ")) << line;
  EXPECT_EQ(count(job.err(), "[1]   what():  nobody catches this\n"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "first cause: rank 1 "), 1) << job.err();
}

TEST(LauncherOutput, TheLauncherKeepsTheStreamsApart) {
  RunningCommand job(run_helper({"-n", "2"}, {"both"}));
  ASSERT_EQ(job.wait(), 0);
  EXPECT_EQ(count(job.out(), "[0] to output\n") + count(job.out(), "[1] to output\n"), 2);
  EXPECT_EQ(count(job.err(), "[0] to error\n") + count(job.err(), "[1] to error\n"), 2);
  EXPECT_EQ(count(job.out(), "error") + count(job.err(), "output"), 0);
}

TEST(LauncherOutput, TheLauncherLosesNothingOfTenMegabytesFromEachRank) {
  constexpr long bytes = 10'000'000;
  TemporaryFolder logs;
  RunningCommand job(run_helper({"-n", "2", "--logs", logs.path()}, {"spew", std::to_string(bytes)}));
  ASSERT_EQ(job.wait(), 0);
  for (int rank = 0; rank < 2; ++rank) {
    const std::string expected = numbered_lines(rank, bytes);
    EXPECT_TRUE(output_of(rank, job.out()) == expected);
    EXPECT_TRUE(contents(log_of(logs, rank)) == expected);
  }
}

TEST(LauncherOutput, TheLauncherKeepsVeryLongLinesWhole) {
  RunningCommand job(run_helper({"-n", "2"}, {"long-line", "3000000"}));
  ASSERT_EQ(job.wait(), 0);
  EXPECT_TRUE(output_of(0, job.out()) == std::string(3'000'000, 'a') + "\n");
  EXPECT_TRUE(output_of(1, job.out()) == std::string(3'000'000, 'b') + "\n");
}

TEST(LauncherOutput, TheLauncherWritesLastLinesWithoutEnd) {
  RunningCommand job(run_helper({"-n", "2"}, {"partial"}));
  ASSERT_EQ(job.wait(), 0);
  EXPECT_EQ(output_of(0, job.out()), "whole\nwithout end of rank 0\n");
  EXPECT_EQ(output_of(1, job.out()), "whole\nwithout end of rank 1\n");
}

TEST(LauncherOutput, ABarKeepsItsPrefix) {
  RunningCommand job(run_helper({"-n", "1"}, {"bar"}));
  ASSERT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "[0] \r[0] 10 %\r[0] 50 %\r[0] 100 %\n");
}

TEST(LauncherOutput, EachRankHasALogFileAlsoOnSuccess) {
  TemporaryFolder folder;
  const std::string logs = folder.path() + "/made/on/demand";
  RunningCommand job(run_helper({"-n", "2", "--logs", logs}, {"variables", "RANK"}));
  ASSERT_EQ(job.wait(), 0);
  EXPECT_EQ(contents(logs + "/latest/rank-0.log"), "RANK=0\n");
  EXPECT_EQ(contents(logs + "/latest/rank-1.log"), "RANK=1\n");
  EXPECT_EQ(count(job.out(), "RANK="), 2);
}

std::string log_folder_said(const RunningCommand& job) { return word_after(job.err(), "[unisono] logs: "); }

TEST(LauncherOutput, LogsOfEachJobHaveAFolderOfTheirOwn) {
  TemporaryFolder folder;
  RunningCommand first(run_helper({"-n", "1", "--logs", folder.path()}, {"arguments", "first"}));
  ASSERT_EQ(first.wait(), 0);
  RunningCommand second(run_helper({"-n", "1", "--logs", folder.path()}, {"arguments", "second"}));
  ASSERT_EQ(second.wait(), 0);
  const std::string one = log_folder_said(first), other = log_folder_said(second);
  EXPECT_TRUE(one.starts_with(folder.path() + "/20")) << first.err();
  EXPECT_NE(one, other);
  EXPECT_EQ(contents(one + "/rank-0.log"), "<first>\n");
  EXPECT_EQ(contents(other + "/rank-0.log"), "<second>\n");
  EXPECT_EQ(lines_of(second.err()).size(), 1u) << second.err();
  EXPECT_EQ(std::filesystem::canonical(folder.path() + "/latest"), std::filesystem::canonical(other));
}

TEST(LauncherOutput, AnotherFileCalledLatestStays) {
  TemporaryFolder folder;
  std::ofstream(folder.path() + "/latest") << "mine";
  RunningCommand job(run_helper({"-n", "1", "--logs", folder.path()}, {"arguments", "word"}));
  ASSERT_EQ(job.wait(), 0);
  EXPECT_EQ(contents(folder.path() + "/latest"), "mine");
  EXPECT_EQ(contents(log_folder_said(job) + "/rank-0.log"), "<word>\n");
}

// H6: no file may grow, which is how a full disk looks from here.
TEST(LauncherOutput, H6ADiskThatTakesNoMoreIsOneWarningAndTheJobGoesOn) {
  TemporaryFolder logs;
  RunningCommand job(
      {"/bin/bash", "-c",
       fmt::format("trap '' XFSZ; ulimit -f 1; exec {} run -n 3 --logs {} -- {} spew 100000", UNISONO_COMMAND, logs.path(), RANK_HELPER)});
  ASSERT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(count(job.err(), "warning"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "File too large"), 1) << job.err();
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(output_of(rank, job.out()) == numbered_lines(rank, 100000));
}

TEST(LauncherOutput, H6AFullDiskIsSaidOnce) {
  TemporaryFolder folder;
  launcher::RankLog log(folder.path(), 0, 0);
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  for (const auto& open : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(open, gone) != folder.path() + "/rank-0.log") continue;
    ASSERT_GE(::dup3(full, std::stoi(open.path().filename().native()), O_CLOEXEC), 0);
  }
  ::close(full);
  log.append("words\n");
  EXPECT_FALSE(log.is_open());
  EXPECT_EQ(count(log.take_warning(), "No space left"), 1);
  EXPECT_EQ(log.take_warning(), "");
}

TEST(LauncherOutput, AFolderForLogsThatCannotBeIsRefusedAtOnce) {
  RunningCommand job(run_helper({"-n", "2", "--logs", "/dev/null/logs"}, {"variables", "RANK"}));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_NE(job.err().find("/dev/null/logs"), std::string::npos) << job.err();
  EXPECT_EQ(job.out(), "");
}

TEST(LauncherOutput, AReaderThatLeavesEndsTheWriters) {
  RunningCommand job({"/bin/bash", "-c", std::string(UNISONO_COMMAND) + " run -n 2 -- yes word | head -n 3; echo ${PIPESTATUS[0]}"});
  ASSERT_EQ(job.wait(), 0);
  EXPECT_EQ(count(job.out(), "] word\n"), 3);
  EXPECT_EQ(lines_of(job.out()).back(), "141");  // 128 + SIGPIPE, as without us
}

// A launcher that cannot hand on what it was given has failed, also where the ranks have not. They do not notice.
TEST(LauncherOutput, OutputThatCannotBeWrittenIsCodeOne) {
  const auto into_full = [](const std::string& rest) {
    return std::vector<std::string>{"/bin/bash", "-c", fmt::format("exec {} run -n 2 {}", UNISONO_COMMAND, rest)};
  };
  RunningCommand job(into_full(fmt::format("-- {} spew 1000000 > /dev/full", RANK_HELPER)));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(job.err(), "[unisono] standard output: No space left on device; the output that follows is lost\n");
  RunningCommand failed(into_full(fmt::format("--grace 0.1 -- {} exit 1 7 > /dev/full", RANK_HELPER)));
  EXPECT_EQ(failed.wait(), 7) << failed.err();
  RunningCommand talks(into_full(fmt::format("-- /bin/sh -c 'echo $RANK; exit 7' > /dev/full")));
  EXPECT_EQ(talks.wait(), 7) << talks.err();
  RunningCommand errors(into_full(fmt::format("-- {} both 2> /dev/full", RANK_HELPER)));
  EXPECT_EQ(errors.wait(), 1);
  EXPECT_EQ(count(errors.out(), "to output\n"), 2) << errors.out();
}

// ---- on a terminal ---------------------------------------------------------------------------------------------

TEST(LauncherTerminal, ThePrefixIsColouredUnlessToldNotTo) {
  RunningCommand job(run_helper({"-n", "2"}, {"exit", "9", "0"}), {.stdio = RunningCommand::Stdio::terminal});
  ASSERT_EQ(job.wait(), 0);
  RunningCommand coloured(run_helper({"-n", "2"}, {"variables", "RANK"}), {.stdio = RunningCommand::Stdio::terminal});
  ASSERT_EQ(coloured.wait(), 0);
  EXPECT_EQ(count(coloured.out(), "\x1b[36m[0]\x1b[0m RANK=0"), 1) << coloured.out();
  EXPECT_EQ(count(coloured.out(), "[1]\x1b[0m RANK=1"), 1) << coloured.out();
  RunningCommand plain(run_helper({"-n", "2"}, {"variables", "RANK"}),
                       {.environment = {{"NO_COLOR", "1"}}, .stdio = RunningCommand::Stdio::terminal});
  ASSERT_EQ(plain.wait(), 0);
  EXPECT_EQ(count(plain.out(), "[1] RANK=1"), 1) << plain.out();
  EXPECT_EQ(count(plain.out(), "\x1b[3"), 0) << plain.out();
  RunningCommand piped(run_helper({"-n", "2"}, {"variables", "RANK"}));
  ASSERT_EQ(piped.wait(), 0);
  EXPECT_EQ(count(piped.out(), "\x1b"), 0);
}

TEST(LauncherTerminal, APromptIsShownAndRankZeroGetsWhatIsTyped) {
  RunningCommand job(run_helper({"-n", "2"}, {"terminal"}), {.environment = {{"NO_COLOR", "1"}}, .stdio = RunningCommand::Stdio::terminal});
  ASSERT_TRUE(job.until_out_has("[0] name? ")) << job.out();
  ASSERT_TRUE(job.until_out_has("a terminal", 2)) << job.out();
  job.type("Ada\n");
  ASSERT_EQ(job.wait(), 0) << job.out();
  EXPECT_EQ(count(job.out(), "[0] hello Ada"), 1) << job.out();
}

TEST(LauncherTerminal, CtrlDEndsTheInput) {
  RunningCommand job(run_helper({"-n", "1"}, {"cat"}), {.environment = {{"NO_COLOR", "1"}}, .stdio = RunningCommand::Stdio::terminal});
  job.type("word\n");
  ASSERT_TRUE(job.until_out_has("[0] read word"));
  job.type("\x04");
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(count(job.out(), "end of input"), 1);
}

TEST(LauncherTerminal, CtrlCReachesEveryRankOnce) {
  RunningCommand job(run_helper({"-n", "2", "--grace", "1"}, {"stubborn"}),
                     {.environment = {{"NO_COLOR", "1"}}, .stdio = RunningCommand::Stdio::terminal});
  ASSERT_TRUE(job.until_out_has("ready", 2));
  job.type("\x03");
  EXPECT_EQ(job.wait(), 130);
  EXPECT_EQ(count(job.out(), "caught 02"), 2) << job.out();
}

TEST(LauncherTerminal, CtrlZStopsAllRanksAndContGoesOn) {
  RunningCommand job(run_helper({"-n", "2"}, {"rest"}), {.environment = {{"NO_COLOR", "1"}}, .stdio = RunningCommand::Stdio::terminal});
  ASSERT_TRUE(job.until_out_has("ready", 2));
  const pid_t first = pid_of(job, 0), second = pid_of(job, 1);
  job.send(SIGTSTP);
  EXPECT_TRUE(eventually([&] { return state_of(first) == 'T' && state_of(second) == 'T' && state_of(job.pid()) == 'T'; }));
  job.send(SIGCONT);
  EXPECT_TRUE(eventually([&] { return state_of(first) == 'S' && state_of(second) == 'S'; }));
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 143);
}

TEST(LauncherTerminal, ABarEndsWithItsLastState) {
  RunningCommand job(run_helper({"-n", "1"}, {"bar"}), {.environment = {{"NO_COLOR", "1"}}, .stdio = RunningCommand::Stdio::terminal});
  ASSERT_EQ(job.wait(), 0);
  EXPECT_TRUE(job.out().ends_with("[0] 100 %\r\n")) << job.out();
}

// ---- the parts -------------------------------------------------------------------------------------------------

TEST(LauncherOutput, TheLauncherCutsToTheWidthOfATerminal) {
  EXPECT_EQ(launcher::cut_to_width("abcdef", 4), "abcd");
  EXPECT_EQ(launcher::cut_to_width("äöüß", 2), "äö");
  EXPECT_EQ(launcher::cut_to_width("\x1b[31mred\x1b[0m", 2), "\x1b[31mre\x1b[0m");
  EXPECT_EQ(launcher::cut_to_width("", 5), "");
}

TEST(LauncherOutput, TheLauncherRemembersTheLastTwentyLines) {
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  base::FileDescriptor keeper(null);
  launcher::Sink sink(null);
  launcher::RankLog log;
  launcher::RankStream stream(sink, log, "[0] ", 0);
  for (int i = 0; i < 30; ++i) stream.feed(fmt::format("bar 1\rline {}\n", i));
  stream.feed("the last has no end");
  stream.finish();
  ASSERT_EQ(stream.tail().size(), 20u);
  EXPECT_EQ(stream.tail().front(), "line 11");
  EXPECT_EQ(stream.tail().back(), "the last has no end");
}

}  // namespace
}  // namespace unisono::testing
