// `unisono run`: what ranks print is seen when they print it, from programs that never flush.

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <string>
#include <string_view>

#include "launch/output/output.h"
#include "launch/process/program.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

using Stdio = RunningCommand::Stdio;

// ---- into pipes and files --------------------------------------------------------------------------------------

TEST(LauncherLive, LinesArriveWhileTheProgramRuns) {
  RunningCommand job(run_plain({"-n", "2"}, {"live"}));
  EXPECT_TRUE(job.until_out_has("step 1\n", 2)) << job.out();
  EXPECT_TRUE(job.until_out_has("step 2\n", 2)) << job.out();
}

TEST(LauncherLive, LinesArriveAlsoThroughAShell) {
  RunningCommand job(unisono_command({"run", "-n", "2", "--", "/bin/sh", "-c", "echo begin; " PLAIN_HELPER " live; echo end"}));
  EXPECT_TRUE(job.until_out_has("step 1\n", 2)) << job.out();
}

TEST(LauncherLive, LinesArriveAlsoInAFile) {
  TemporaryFolder folder;
  const std::string file = folder.path() + "/out";
  RunningCommand job({"/bin/bash", "-c", fmt::format("exec {} run -n 2 -- {} live > {}", UNISONO_COMMAND, PLAIN_HELPER, file)});
  EXPECT_TRUE(eventually([&] { return count(contents(file), "step 2\n") == 2; })) << contents(file);
}

TEST(LauncherLive, PythonWritesAtOnce) {
  if (std::system("command -v python3 >/dev/null") != 0) GTEST_SKIP() << "python3 is missing";
  RunningCommand job(
      unisono_command({"run", "-n", "2", "--", "python3", "-c", "print('step 1'); input_is_never_read = __import__('signal').pause()"}));
  EXPECT_TRUE(job.until_out_has("step 1\n", 2)) << job.out() << job.err();
}

TEST(LauncherLive, LastWordsBeforeACrashAreThere) {
  for (const int signal : {SIGKILL, SIGSEGV, SIGABRT}) {
    RunningCommand job(run_plain({"-n", "2"}, {"end-by", std::to_string(signal)}));
    EXPECT_EQ(job.wait(), 128 + signal) << job.err();
    EXPECT_EQ(count(job.out(), "last words\n"), 2) << signal << job.out();
    RunningCommand seen(run_plain({"-n", "2"}, {"end-by", std::to_string(signal)}), on_terminal({{"NO_COLOR", "1"}}));
    EXPECT_EQ(seen.wait(), 128 + signal) << seen.out();
    EXPECT_EQ(count(seen.out(), "last words\r\n"), 2) << signal << seen.out();
  }
}

// The pipe to the launcher is treated so; what a rank writes elsewhere is as quick as ever.
TEST(LauncherLive, AFileThatARankWritesStaysBuffered) {
  TemporaryFolder folder;
  const std::string file = folder.path() + "/out";
  RunningCommand job(unisono_command({"run", "--", "/bin/sh", "-c", fmt::format("exec {} live > {}", PLAIN_HELPER, file)}));
  ASSERT_TRUE(job.until_err_has("printed")) << job.err();
  EXPECT_EQ(contents(file), "");
}

TEST(LauncherLive, APipeIsNoTerminal) {
  RunningCommand job(run_plain({"-n", "2"}, {"terminals"}));
  ASSERT_EQ(job.wait(), 0);
  EXPECT_EQ(count(job.out(), "output 0 error 0 columns -1\n"), 2) << job.out();
}

#ifdef PLAIN_HELPER_ASAN
// It wants to be the first of all libraries, and is told that ours does no harm.
TEST(LauncherLive, AddressSanitizerDoesNotMind) {
  RunningCommand job(run_plain({"-n", "2"}, {"live"}, PLAIN_HELPER_ASAN));
  EXPECT_TRUE(job.until_out_has("step 1\n", 2)) << job.out() << job.err();
  RunningCommand inner(unisono_command({"run", "--", "/bin/sh", "-c", PLAIN_HELPER_ASAN " hello; echo then"}));
  EXPECT_EQ(inner.wait(), 0) << inner.err();
  EXPECT_EQ(inner.out(), "[0] hello from rank 0\n[0] then\n");
}
#endif

TEST(LineBuffering, LineBufferingKeepsWhatTheUserHasSet) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const base::FileDescriptor reading(pipe[0]), writing(pipe[1]);
  launcher::EnvironmentBlock bare{base::Environment()};
  launcher::write_line_by_line(bare, writing.get(), "/bin/sh");
  EXPECT_EQ(bare.get("PYTHONUNBUFFERED"), "1");
  EXPECT_EQ(bare.get("LD_PRELOAD"), launcher::find_helper("libunisono-lines.so"));
  EXPECT_NE(bare.get("LD_PRELOAD"), "");
  EXPECT_EQ(bare.get("ASAN_OPTIONS"), "verify_asan_link_order=0");

  launcher::EnvironmentBlock full{base::Environment({{"PYTHONUNBUFFERED", "0"}, {"LD_PRELOAD", "/lib/mine.so"}, {"ASAN_OPTIONS", "detect_leaks=0"}})};
  launcher::write_line_by_line(full, writing.get(), "/bin/sh");
  EXPECT_EQ(full.get("PYTHONUNBUFFERED"), "0");
  EXPECT_EQ(full.get("LD_PRELOAD"), "/lib/mine.so:" + bare.get("LD_PRELOAD"));
  EXPECT_EQ(full.get("ASAN_OPTIONS"), "detect_leaks=0:verify_asan_link_order=0");

  launcher::EnvironmentBlock own{
      base::Environment(std::map<std::string, std::string, std::less<>>{{"_STDBUF_O", "L"}, {"LD_PRELOAD", "/lib/libstdbuf.so"}})};
  launcher::write_line_by_line(own, writing.get(), "/bin/sh");
  EXPECT_EQ(own.get("LD_PRELOAD"), "/lib/libstdbuf.so");
}

// ---- on a terminal ---------------------------------------------------------------------------------------------

TEST(LauncherTerminals, RanksHaveTerminalsAsWideAsWhatIsLeftForThem) {
  RunningCommand job(run_plain({"-n", "2"}, {"terminals"}), on_terminal({{"NO_COLOR", "1"}}));
  ASSERT_EQ(job.wait(), 0) << job.out();
  EXPECT_EQ(count(job.out(), "output 1 error 1 columns 76\r\n"), 2) << job.out();
  RunningCommand wider(run_plain({"-n", "11"}, {"terminals"}), on_terminal({{"NO_COLOR", "1"}}));
  ASSERT_EQ(wider.wait(), 0) << wider.out();
  EXPECT_EQ(count(wider.out(), "output 1 error 1 columns 75\r\n"), 11) << wider.out();
}

TEST(LauncherTerminals, RanksHaveNoTerminalsWhereToldSo) {
  RunningCommand job(run_plain({"-n", "2", "--no-pty"}, {"terminals"}), on_terminal({{"NO_COLOR", "1"}}));
  ASSERT_EQ(job.wait(), 0) << job.out();
  EXPECT_EQ(count(job.out(), "output 0 error 0 columns -1\r\n"), 2) << job.out();
  RunningCommand live(run_plain({"-n", "2", "--no-pty"}, {"live"}), on_terminal({{"NO_COLOR", "1"}}));
  EXPECT_TRUE(live.until_out_has("step 1\r\n", 2)) << live.out();
}

// Each stream of a rank is what that of the launcher is.
TEST(LauncherTerminals, TheStreamThatEndsOnATerminalAloneHasOne) {
  RunningCommand job({"/bin/bash", "-c", fmt::format("{} run -n 2 -- {} terminals | cat", UNISONO_COMMAND, PLAIN_HELPER)},
                     on_terminal({{"NO_COLOR", "1"}}));
  ASSERT_EQ(job.wait(), 0) << job.out();
  EXPECT_EQ(count(job.out(), "output 0 error 1 columns -1\r\n"), 2) << job.out();
}

TEST(LauncherTerminals, ANewSizeIsPassedOn) {
  RunningCommand job(run_plain({"-n", "2"}, {"resized"}), on_terminal({{"NO_COLOR", "1"}}));
  ASSERT_TRUE(job.until_out_has("ready", 2)) << job.out();
  job.resize(100);
  EXPECT_EQ(job.wait(), 0) << job.out();
  EXPECT_EQ(count(job.out(), "columns 96\r\n"), 2) << job.out();
}

/// Returns what a terminal shows of a line in the end. A rank that is away for a while in the middle of a line has what there is of it shown, and
/// erased again.
std::string_view shown_in_the_end(std::string_view line) {
  constexpr std::string_view erasure = "\r\x1b[K";
  const auto last = line.rfind(erasure);
  return last == std::string_view::npos ? line : line.substr(last + erasure.size());
}

TEST(LauncherTerminals, NothingIsLostOfMuchOutput) {
  constexpr long bytes = 1'000'000;
  RunningCommand job(run_helper({"-n", "2"}, {"spew", std::to_string(bytes)}), on_terminal({{"NO_COLOR", "1"}}));
  ASSERT_EQ(job.wait(), 0);
  for (int rank = 0; rank < 2; ++rank) {
    std::string expected, got;
    for (long i = 0; static_cast<long>(expected.size()) < bytes; ++i) expected += fmt::format("line {} of rank {}\n", i, rank);
    for (const auto& whole : lines_of(job.out())) {
      const std::string_view line = shown_in_the_end(whole);
      if (line.starts_with(tag(rank))) got.append(line.substr(tag(rank).size(), line.size() - tag(rank).size() - 1)).append("\n");
    }
    const auto differs = std::ranges::mismatch(got, expected).in1 - got.begin();
    EXPECT_TRUE(got == expected) << "rank " << rank << ", from byte " << differs << " on: " << got.substr(static_cast<std::size_t>(differs), 200);
  }
}

TEST(LauncherTerminals, AColourEndsWithItsLine) {
  RunningCommand job(run_plain({"-n", "1"}, {"colour"}), on_terminal({{"NO_COLOR", "1"}}));
  ASSERT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "[0] \x1b[32mgreen to the end\x1b[0m\r\n");
}

TEST(PseudoTerminal, APseudoTerminalCarriesEveryByteAsItIs) {
  auto terminal = launcher::open_pseudo_terminal(winsize{24, 80, 0, 0});
  ASSERT_TRUE(terminal.has_value());
  std::string sent;
  for (int byte = 0; byte < 256; ++byte) sent += static_cast<char>(byte);
  ASSERT_EQ(::write(terminal->writing.get(), sent.data(), sent.size()), static_cast<ssize_t>(sent.size()));
  terminal->writing.reset();
  std::string got;
  std::array<char, 64> part{};
  for (ssize_t n = 0; (n = ::read(terminal->reading.get(), part.data(), part.size())) > 0;) got.append(part.data(), static_cast<std::size_t>(n));
  EXPECT_EQ(errno, EIO);
  EXPECT_TRUE(got == sent) << got.size();
}

}  // namespace
}  // namespace unisono::testing
