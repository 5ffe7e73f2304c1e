// `unisono run --status`: the last row of a terminal.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "launch/view/status_line.h"
#include "launched_jobs.h"
#include "running_command.h"
#include "screen.h"

namespace unisono::testing {
namespace {

using launcher::JobSeen;
using launcher::RankFacts;

constexpr std::uint64_t second = 1'000'000'000;
constexpr std::size_t height = 24;  // of the terminals of these tests

// ---- the text ----------------------------------------------------------------------------------------------------

/// Ranks of which each waits for the last one, which is in the program.
JobSeen job_with(int ranks, int restarts = 0) {
  JobSeen job{.job = "0123", .host = "here", .node = 0, .world_size = ranks, .restarts = restarts, .ranks = {}};
  for (int rank = 0; rank < ranks; ++rank) {
    RankFacts facts;
    facts.record.rank = rank;
    facts.record.now = 100 * second;
    facts.process.lives = true;
    recorder::CallSeen call{.operation = "all_reduce",
                            .group = "world",
                            .place = "",
                            .state = recorder::CallState::waiting,
                            .sequence = 7,
                            .begun = 90 * second,
                            .waited_for = ranks - 1};
    if (rank == ranks - 1) call.state = recorder::CallState::done;
    facts.record.recent.push_back(call);
    job.ranks.push_back(facts);
  }
  return job;
}

std::string status_line_text(const JobSeen& job, std::chrono::nanoseconds elapsed, std::size_t columns) {
  return launcher::status_line_text(launcher::status_texts(job), elapsed, job.restarts, columns);
}

TEST(StatusLineText, TheTextHasEachRankWhereThereIsRoom) {
  EXPECT_EQ(status_line_text(job_with(3), std::chrono::milliseconds(12'900), 200),
            "[unisono] 12 s: 0 waiting, 1 waiting, 2 program | rank 2 is late for all_reduce #7 of world by 10.0 s");
  EXPECT_EQ(status_line_text(job_with(1, 2), std::chrono::seconds(75), 200), "[unisono] 1 min 15 s, restart 2: 0 program");
}

TEST(StatusLineText, TheTextCountsTheRanksWhereTheyAreMany) {
  EXPECT_EQ(status_line_text(job_with(1000), std::chrono::seconds(12), 120),
            "[unisono] 12 s: 1 program, 999 waiting | rank 999 is late for all_reduce #7 of world by 10.0 s");
  for (std::size_t columns = 1; columns < 120; ++columns) {
    const std::string text = status_line_text(job_with(1000), std::chrono::seconds(12), columns);
    EXPECT_EQ(width_of(text), std::min<std::size_t>(columns, 94)) << text;
  }
}

// ---- on a terminal -----------------------------------------------------------------------------------------------

RunningCommand::Options plain_terminal() { return on_terminal({{"NO_COLOR", "1"}}); }

/// Returns the rows that a terminal shows now of what a job has written.
std::vector<std::string> rows_of(const RunningCommand& job, std::size_t columns = 80) {
  Screen screen(columns, height);
  screen.put(job.out());
  return screen.rows();
}

bool is_status(const std::string& row) { return row.starts_with("[unisono] ") && row.find(" s: ") != std::string::npos; }
auto statuses_in(const std::vector<std::string>& rows) { return std::ranges::count_if(rows, is_status); }

TEST(StatusLine, TheStatusLineStaysInTheLastRow) {
  RunningCommand job(run_helper({"-n", "4", "--status"}, {"late", "2", "rests"}), plain_terminal());
  ASSERT_TRUE(job.until([&] { return !rows_of(job).empty() && rows_of(job).back().find("| rank 2 is late") != std::string::npos; })) << job.out();
  const std::vector<std::string> rows = rows_of(job);
  EXPECT_EQ(statuses_in(rows), 1) << job.out();
  EXPECT_TRUE(is_status(rows.back())) << rows.back();
  EXPECT_NE(rows.back().find("0 waiting, 1 waiting, 2 program, 3 waiting | rank 2 is late"), std::string::npos) << rows.back();
  EXPECT_LT(width_of(rows.back()), 80U);
  EXPECT_EQ(std::ranges::count_if(rows, [](const std::string& row) { return row.find("] ready ") != std::string::npos; }), 4);
}

TEST(StatusLine, LinesScrollAboveIt) {
  constexpr long bytes = 20'000;
  RunningCommand job(run_helper({"-n", "2", "--status"}, {"spew", std::to_string(bytes)}), plain_terminal());
  EXPECT_EQ(job.wait(), 0) << job.out();
  EXPECT_GE(count(job.out(), "[unisono] "), 1) << "it was there";
  const std::vector<std::string> rows = rows_of(job);
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<std::string> expected, got;
    long size = 0;
    for (long i = 0; size < bytes; ++i) {
      expected.push_back(fmt::format("{}line {} of rank {}", tag(rank), i, rank));
      size += static_cast<long>(expected.back().size() - tag(rank).size()) + 1;
    }
    std::ranges::copy_if(rows, std::back_inserter(got), [&](const std::string& row) { return row.starts_with(tag(rank)); });
    EXPECT_EQ(got, expected);
  }
  EXPECT_EQ(std::ranges::count_if(rows, [](const std::string& row) { return row.find("unisono") != std::string::npos; }), 0) << "it is gone";
}

TEST(StatusLine, AFailureIsToldBelowTheOutput) {
  RunningCommand job(run_helper({"-n", "3", "--status", "--grace", "1"}, {"late", "1", "dies"}), plain_terminal());
  EXPECT_EQ(job.wait(), 128 + SIGKILL);
  const std::vector<std::string> rows = rows_of(job);
  EXPECT_EQ(statuses_in(rows), 0) << job.out();
  EXPECT_EQ(std::ranges::count_if(rows, [](const std::string& row) { return row.find("first cause: rank 1") != std::string::npos; }), 1) << job.out();
}

TEST(StatusLine, TheStatusLineFitsAnyWidth) {
  for (const int columns : {20, 33, 79, 132}) {
    RunningCommand::Options options = plain_terminal();
    options.columns = columns;
    RunningCommand job(run_helper({"-n", "4", "--status"}, {"late", "2", "rests"}), options);
    ASSERT_TRUE(job.until_out_has("ready", 4)) << job.out();
    const auto last = [&] {
      const auto rows = rows_of(job, static_cast<std::size_t>(columns));
      return rows.empty() ? "" : rows.back();
    };
    // It was redrawn at least once: its text has the time in it, of which a second may be left out.
    ASSERT_TRUE(job.until([&] { return std::atoi(word_after(last(), "[unisono] ").c_str()) >= 2; })) << job.out();
    EXPECT_LT(width_of(last()), static_cast<std::size_t>(columns));
    const auto rows = rows_of(job, static_cast<std::size_t>(columns));
    EXPECT_EQ(std::ranges::count_if(rows, [](const std::string& row) { return row.starts_with("[unisono]"); }), 1) << job.out();
  }
}

TEST(StatusLine, TheStatusLineFollowsTheSizeOfTheTerminal) {
  RunningCommand job(run_helper({"-n", "4", "--status"}, {"late", "2", "rests"}), plain_terminal());
  ASSERT_TRUE(job.until([&] { return !rows_of(job).empty() && rows_of(job).back().find("| rank 2 is late") != std::string::npos; })) << job.out();
  for (const int columns : {40, 100}) {
    const std::size_t before = job.out().size();
    job.resize(columns);
    ASSERT_TRUE(job.until([&] { return count(job.out().substr(before), "[unisono] ") >= 2; })) << job.out();
    Screen screen(columns == 40 ? 80 : 40, height);
    screen.put(job.out().substr(0, before));
    screen.resize(static_cast<std::size_t>(columns));
    screen.put(job.out().substr(before));
    const std::vector<std::string> rows = screen.rows();
    EXPECT_EQ(statuses_in(rows), 1) << columns;
    EXPECT_TRUE(is_status(rows.back())) << rows.back();
    EXPECT_LT(width_of(rows.back()), static_cast<std::size_t>(columns));
    if (columns == 40) return;  // the rows before are of two widths by now
  }
}

TEST(StatusLine, TheStatusLineLeavesAPromptAlone) {
  RunningCommand job(run_plain({"-n", "2", "--status", "--stdin", "1"}, {"prompt", "1"}), plain_terminal());
  const auto row_above = [&] {
    const auto rows = rows_of(job);
    return rows.size() >= 2 && is_status(rows.back()) ? rows[rows.size() - 2] : "";
  };
  ASSERT_TRUE(job.until([&] { return row_above().starts_with("[1] "); })) << job.out();
  const std::string prompt = row_above();
  job.type("An");
  // The line is drawn anew meanwhile, and what was typed stays.
  const int drawn = count(job.out(), "[unisono] ");
  ASSERT_TRUE(job.until([&] { return count(job.out(), "[unisono] ") >= drawn + 2; })) << job.out();
  EXPECT_TRUE(row_above().ends_with("An")) << row_above();
  job.type("na\n");
  EXPECT_EQ(job.wait(), 0) << job.out();
  const std::vector<std::string> rows = rows_of(job);
  EXPECT_EQ(statuses_in(rows), 0) << job.out();
  EXPECT_TRUE(std::ranges::any_of(rows, [&](const std::string& row) { return row.starts_with(prompt) && row.ends_with("Anna"); })) << job.out();
}

// The conductor puts together what the launchers of the hosts tell.
TEST(StatusLine, TheStatusLineShowsTheRanksOfNamedHosts) {
  RunningCommand job(run_helper({"--hosts", "localhost:2,127.0.0.1:2", "--status"}, {"late", "3", "rests"}), plain_terminal());
  // Each host tells once a second: one may say that rank 3 is late before the other one says that its own rank waits.
  const std::string late = " s: 0 waiting, 1 waiting, 2 waiting, 3 program | rank 3 is late";
  ASSERT_TRUE(job.until([&] { return !rows_of(job).empty() && rows_of(job).back().find(late) != std::string::npos; })) << job.out();
  EXPECT_EQ(statuses_in(rows_of(job)), 1) << job.out();
  job.type("\003");
  EXPECT_EQ(job.wait(), 128 + SIGINT) << job.out();
  EXPECT_EQ(statuses_in(rows_of(job)), 0) << job.out();
}

TEST(StatusLine, TheStatusLineIsNotShownWhereErrorsGoElsewhere) {
  RunningCommand pipes(run_helper({"-n", "2", "--status"}, {"late", "1", "works"}));
  EXPECT_EQ(pipes.wait(), 0);
  EXPECT_EQ(pipes.err(), "");
  EXPECT_EQ(pipes.out().find('\x1b'), std::string::npos);
  const TemporaryFolder folder;
  RunningCommand file(
      {"/bin/bash", "-c", fmt::format("exec {} run -n 2 --status -- {} late 1 works 2> {}/err", UNISONO_COMMAND, RANK_HELPER, folder.path())},
      plain_terminal());
  EXPECT_EQ(file.wait(), 0);
  EXPECT_EQ(count(file.out(), "unisono"), 0) << file.out();
  EXPECT_EQ(contents(folder.path() + "/err"), "");
}

TEST(StatusLine, TheStatusLineIsNotShownUnlessAsked) {
  RunningCommand job(run_helper({"-n", "2"}, {"late", "1", "works"}), plain_terminal());
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(count(job.out(), "[unisono] "), 0) << job.out();
}

}  // namespace
}  // namespace unisono::testing
