// `unisono run`: how its output looks, at 80 columns. Whole screens are compared with those in captures/, in which an escape character is "^[";
// with UPDATE_CAPTURES=1 in the environment the test writes them anew, to be looked at.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <regex>

#include "base/environment.h"
#include "base/host.h"
#include "launch/output/sink.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

using Stdio = RunningCommand::Stdio;

constexpr std::string_view own_tag = "[unisono] ";

std::string without_escapes(const std::string& text) { return std::regex_replace(text, std::regex("\x1b\\[[0-9;]*[A-Za-z]"), ""); }

/// The lines of a screen, which must fit into it.
std::vector<std::string> rows_of(const std::string& screen) {
  std::vector<std::string> rows = lines_of(screen);
  for (auto& row : rows) {
    if (row.ends_with('\r')) row.pop_back();
    EXPECT_LE(without_escapes(row).size(), 80u) << row;
  }
  return rows;
}

/// Makes equal all that differs from run to run: rows of ranks in the order of the ranks (which of them comes first is chance), numbers and names of
/// this machine; and sentences of the launcher broken anew, because they were broken where those stood.
std::string normalised(const std::string& screen) {
  std::vector<std::string> lines;
  for (const auto& row : rows_of(screen)) {
    const bool goes_on = row.starts_with("          ") && !lines.empty() && without_escapes(lines.back()).starts_with(own_tag);
    if (goes_on) {
      lines.back() += row.substr(own_tag.size() - 1);
    } else {
      lines.push_back(row);
    }
  }
  const auto rank_of = [](const std::string& line) {
    std::smatch found;
    const std::string plain = without_escapes(line);
    return std::regex_search(plain, found, std::regex("^\\[ *([0-9]+)\\] ")) ? std::stoi(found[1]) : -1;
  };
  for (auto from = lines.begin(); from != lines.end();) {
    const auto to = std::find_if(from, lines.end(), [&](const auto& line) { return rank_of(line) < 0; });
    std::stable_sort(from, to, [&](const auto& a, const auto& b) { return rank_of(a) < rank_of(b); });
    from = to == lines.end() ? to : to + 1;
  }
  std::string text;
  for (std::string line : lines) {
    line = std::regex_replace(line, std::regex("pid [0-9]+ on [^ )]+"), "pid 4711 on host");
    line = std::regex_replace(line, std::regex("[0-9]{4}(-[0-9]{2}){5}-[0-9a-f]{8}"), "2026-01-31-12-00-00-0123abcd");
    line = std::regex_replace(line, std::regex("logs: /[^ ]*/"), "logs: ");
    const std::string start = line.starts_with("\x1b[1;31m") ? "\x1b[1;31m" : "";
    if (std::string_view(line).substr(start.size()).starts_with(own_tag)) {
      line = start + launcher::wrap_to_width(line.substr(start.size()), 80, own_tag.size());
    }
    text += line + "\n";
  }
  return std::regex_replace(text, std::regex("\x1b"), "^[");
}

void expect_capture(const std::string& name, const std::string& screen) {
  const std::string file = std::string(CAPTURES) + "/" + name + ".txt", got = normalised(screen);
  if (base::Environment::process().has("UPDATE_CAPTURES")) std::ofstream(file) << got;
  EXPECT_EQ(got, contents(file)) << name;
}

// ---- whole screens ---------------------------------------------------------------------------------------------

TEST(LauncherLook, ARunLooksAsItShould) {
  RunningCommand job(run_plain({"-n", "11"}, {"hello"}), on_terminal({{"OMP_NUM_THREADS", ""}}));
  ASSERT_EQ(job.wait(), 0) << job.out();
  expect_capture("run", job.out());
}

TEST(LauncherLook, AFailureUnderFortyLinesOfTraceLooksAsItShould) {
  RunningCommand job(run_plain({"-n", "4", "--grace", "1"}, {"trace", "2", "40", "1"}), on_terminal({{"OMP_NUM_THREADS", ""}}));
  ASSERT_EQ(job.wait(), 1) << job.out();
  expect_capture("failure", job.out());
}

TEST(LauncherLook, ACrashWithoutWordsLooksAsItShould) {
  RunningCommand job(run_helper({"-n", "3", "--grace", "1"}, {"play", "rest", "rest", "kill 9"}), on_terminal());
  ASSERT_EQ(job.wait(), 137) << job.out();
  expect_capture("crash", job.out());
}

TEST(LauncherLook, AnEndByCtrlCLooksAsItShould) {
  RunningCommand job(run_helper({"-n", "2"}, {"play", "say step 1;rest", "say step 1;rest"}), on_terminal());
  ASSERT_TRUE(job.until_out_has("step 1", 2)) << job.out();
  job.send(SIGINT);
  ASSERT_EQ(job.wait(), 130) << job.out();
  expect_capture("interrupted", job.out());
}

TEST(LauncherLook, ARestartWithLogsLooksAsItShould) {
  TemporaryFolder folder;
  const std::string script =
      "[ $RANK = 1 ] && echo attempt $UNISONO_ATTEMPT; [ $UNISONO_ATTEMPT = 1 ] && exit 0; [ $RANK = 1 ] && exit 5; exec sleep 100";
  RunningCommand job(unisono_command({"run", "-n", "2", "--max-restarts", "1", "--logs", folder.path() + "/logs", "--", "/bin/sh", "-c", script}),
                     on_terminal());
  ASSERT_EQ(job.wait(), 0) << job.out();
  expect_capture("restart", job.out());
}

TEST(LauncherLook, WhatTheLauncherSaysWhenAskedLooksAsItShould) {
  RunningCommand job(run_plain({"-n", "1"}, {"hello"}), on_terminal({{"OMP_NUM_THREADS", ""}, {"UNISONO_LOG", "info"}}));
  ASSERT_EQ(job.wait(), 0) << job.out();
  const std::vector<std::string> rows = rows_of(job.out());
  EXPECT_EQ(count(job.out(), "[unisono] info: OMP_NUM_THREADS="), 1) << job.out();
  EXPECT_EQ(count(job.out(), " 1 rank)"), 1) << job.out();
}

// ---- parts -----------------------------------------------------------------------------------------------------

TEST(LauncherLook, PrefixesAreAligned) {
  RunningCommand job(run_plain({"-n", "11"}, {"hello"}));
  ASSERT_EQ(job.wait(), 0) << job.err();
  for (int rank = 0; rank < 11; ++rank) EXPECT_EQ(count(job.out(), fmt::format("[{:2}] hello from rank {}\n", rank, rank)), 1) << job.out();
  EXPECT_EQ(job.err(), "");
}

// PyTorch and this library write the rank as well. The log keeps what was written.
TEST(LauncherLook, ARankIsNamedOnce) {
  TemporaryFolder logs;
  RunningCommand job(unisono_command({"run", "-n", "2", "--logs", logs.path(), "--", "/bin/sh", "-c",
                                      "echo \"[rank$RANK]: torch\"; echo \"[rank$RANK]:[W123] warning\"; echo \"[unisono rank $RANK] info: ours\"; "
                                      "echo \"[rank7]: another\"; echo \"[rank$RANK\""}));
  ASSERT_EQ(job.wait(), 0) << job.err();
  for (int rank = 0; rank < 2; ++rank) {
    std::string own;
    for (const auto& line : lines_of(job.out())) {
      if (line.starts_with(tag(rank))) own += line + "\n";
    }
    EXPECT_EQ(own, fmt::format("[{0}] torch\n[{0}] [W123] warning\n[{0}] [unisono] info: ours\n[{0}] [rank7]: another\n[{0}] [rank{0}\n", rank));
    EXPECT_EQ(count(contents(logs.path() + fmt::format("/latest/rank-{}.log", rank)), fmt::format("[rank{}]: torch\n", rank)), 1);
  }
}

TEST(LauncherLook, TheFirstCauseIsRedAndTheLastLine) {
  RunningCommand job(run_plain({"-n", "2", "--grace", "0.2"}, {"trace", "1", "40", "3"}), on_terminal());
  ASSERT_EQ(job.wait(), 3);
  const std::string last = job.out().substr(job.out().find("\x1b[1;31m"));
  EXPECT_TRUE(last.starts_with("\x1b[1;31m[unisono] first cause: rank 1 (pid ")) << job.out();
  EXPECT_TRUE(last.ends_with("\x1b[0m\r\n")) << last;
  EXPECT_EQ(count(last, "[unisono]"), 1) << last;
  RunningCommand plain(run_plain({"-n", "2", "--grace", "0.2"}, {"trace", "1", "40", "3"}), on_terminal({{"NO_COLOR", "1"}}));
  ASSERT_EQ(plain.wait(), 3);
  EXPECT_EQ(count(plain.out(), "\x1b"), 0) << plain.out();
  RunningCommand piped(run_plain({"-n", "2", "--grace", "0.2"}, {"trace", "1", "40", "3"}));
  ASSERT_EQ(piped.wait(), 3);
  EXPECT_EQ(count(piped.err(), "\x1b"), 0) << piped.err();
  EXPECT_TRUE(lines_of(piped.err()).back().starts_with("[unisono] first cause: rank 1 (pid ")) << piped.err();
}

TEST(LauncherLook, LastLinesAreNotSaidTwice) {
  RunningCommand job(run_plain({"-n", "2", "--grace", "0.2"}, {"trace", "1", "5", "1"}), on_terminal());
  ASSERT_EQ(job.wait(), 1);
  EXPECT_EQ(count(job.out(), "ValueError: bad data"), 1) << job.out();
}

// Rank 1 says why, and ends when that has been seen; rank 0 then writes a screen more.
TEST(LauncherLook, LastLinesAreRepeatedWhereOthersHaveWrittenSince) {
  std::string others = "wait unisono/exit/first";
  for (int i = 0; i < 30; ++i) others += ";say line " + std::to_string(i);
  RunningCommand job(run_helper({"-n", "2", "--stdin", "1"}, {"play", others + ";exit 0", "say the reason;read;exit 3"}), on_terminal());
  ASSERT_TRUE(job.until_out_has("the reason")) << job.out();
  job.type("\n");
  ASSERT_EQ(job.wait(), 3);
  EXPECT_EQ(count(job.out(), "[unisono] | the reason"), 1) << job.out();
  // Output of ranks that goes elsewhere was not seen here.
  RunningCommand apart(run_helper({"-n", "2", "--grace", "0.2"}, {"play", "rest", "say the reason;exit 3"}));
  ASSERT_EQ(apart.wait(), 3);
  EXPECT_EQ(count(apart.err(), "[unisono] | the reason"), 1) << apart.err();
}

TEST(LauncherLook, SentencesAreBrokenAtBlanks) {
  EXPECT_EQ(launcher::wrap_to_width("[x] one two three four", 11, 4), "[x] one two\n    three\n    four");
  EXPECT_EQ(launcher::wrap_to_width("[x] äöü äöü", 11, 4), "[x] äöü äöü");
  EXPECT_EQ(launcher::wrap_to_width("[x] averyveryverylongword end", 11, 4), "[x] averyveryverylongword\n    end");
  EXPECT_EQ(launcher::wrap_to_width("short", 80, 10), "short");
  EXPECT_EQ(launcher::wrap_to_width("", 80, 10), "");
}

}  // namespace
}  // namespace unisono::testing
