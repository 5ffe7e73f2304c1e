// What `unisono trace` says of a job: where the time of its ranks went, and who kept them back.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "launch/job/report.h"
#include "made_trace.h"
#include "recorder/recorder.h"
#include "trace/page.h"
#include "trace/totals.h"
#include "trace_reading.h"

namespace unisono::tools {
namespace {

using namespace unisono::testing;

MadeCall program_waits(std::uint64_t from, std::uint64_t to, bool fails = false) {
  return {
      .operation = Operation::barrier, .begun = began + from, .done = began + to, .label = recorder::wait_label, .group = "", .has_failed = fails};
}

// A blocking call that has its turn behind others waits as the program does, within the call.
TEST(TraceTotals, AMomentIsCountedOnceWhereCallsLieInEachOther) {
  const TemporaryFolder folder;
  make_trace(folder.path(), {.rank = 0,
                             .now = began + 10 * ms,
                             .calls = {{.begun = began + 1 * ms, .done = began + 9 * ms, .sequence = 1}, program_waits(2 * ms, 9 * ms)}});
  make_trace(folder.path(), {.rank = 1, .now = began + 10 * ms, .calls = {{.begun = began + 8 * ms, .done = began + 9 * ms, .sequence = 1}}});
  JobTrace trace = open_traces(folder.path(), "");
  const Merge merge(trace);
  const Totals totals = totals_of(trace, merge);
  EXPECT_EQ(totals.ranks[0].computing(), 2 * ms);
  EXPECT_EQ(totals.ranks[0].waiting, 7 * ms);
  EXPECT_EQ(totals.ranks[0].moving(), 1 * ms);
  EXPECT_EQ(slices_of(merge, 0).size(), 1U) << "the wait within the call would be painted over it";
}

TEST(TraceTotals, TheTwoCallsOfASendRecvAreOneTime) {
  const TemporaryFolder folder;
  const auto both = [](int other, std::uint64_t begun) {
    return std::vector<MadeCall>{{.operation = Operation::send, .begun = began + begun * ms, .done = began + 9 * ms, .sequence = 1, .peer = other},
                                 {.operation = Operation::recv, .begun = began + begun * ms, .done = began + 9 * ms, .sequence = 2, .peer = other}};
  };
  make_trace(folder.path(), {.rank = 0, .now = began + 10 * ms, .calls = both(1, 2)});
  make_trace(folder.path(), {.rank = 1, .now = began + 10 * ms, .calls = both(0, 6)});
  JobTrace trace = open_traces(folder.path(), "");
  const Totals totals = totals_of(trace, Merge(trace));
  EXPECT_EQ(totals.ranks[0].computing(), 3 * ms);
  EXPECT_EQ(totals.ranks[0].waiting, 4 * ms);
  EXPECT_EQ(totals.ranks[0].moving(), 3 * ms);
}

/// Each rank comes to each call so many milliseconds late.
std::string verdict_with(const std::vector<std::vector<std::uint64_t>>& late, const std::string& folder) {
  for (std::size_t rank = 0; rank < late.size(); ++rank) {
    MadeRank made{.rank = static_cast<int>(rank), .size = static_cast<int>(late.size())};
    for (std::size_t i = 0; i < late[rank].size(); ++i) {
      const std::uint64_t at = began + (100 * i + 1) * ms;
      made.calls.push_back({.begun = at + late[rank][i] * ms, .done = at + 90 * ms, .sequence = i + 1});
    }
    made.now = began + 100 * late[rank].size() * ms;
    make_trace(folder, made);
  }
  JobTrace trace = open_traces(folder, "");
  const Merge merge(trace);
  const Totals totals = totals_of(trace, merge);
  write_page(trace, merge, totals, {}, folder + "/trace.html");
  const std::vector<std::string> verdict = verdict_of(trace, totals);
  EXPECT_EQ(verdict.size(), 1U);
  EXPECT_NE(text_of(folder + "/trace.html").find("\"verdict\":[\"" + verdict.front()), std::string::npos) << "the page says the same";
  return verdict.front();
}

TEST(TraceTotals, NoRankStandsOutWhereAllAreLateInTurn) {
  const TemporaryFolder folder;
  EXPECT_EQ(verdict_with({{30, 0, 0, 32, 0, 0}, {0, 31, 0, 0, 30, 0}, {0, 0, 33, 0, 0, 30}}, folder.path()),
            "no rank stands out: all waited for each other alike");
}

TEST(TraceTotals, TheRanksThatAreLateAgainAndAgainStandOut) {
  const TemporaryFolder one, two;
  EXPECT_TRUE(verdict_with({{0, 0, 1}, {30, 40, 50}, {2, 0, 0}}, one.path()).starts_with("rank 1 is the slowest: the others waited 237.0 ms for it"));
  EXPECT_TRUE(verdict_with({{40, 38, 40}, {0, 1, 0}, {40, 39, 40}, {0, 0, 0}, {1, 0, 1}}, two.path())
                  .starts_with("ranks 0, 2 are the slowest: the others waited "));
}

TEST(TraceTotals, OneRuleSaysWhoStandsOut) {
  using Ranks = std::vector<std::size_t>;
  const auto slowest = [](std::vector<double> waits, std::uint64_t calls = 100) { return launcher::slowest_of(waits, calls); };
  EXPECT_EQ(slowest({0.5, 0.02, 0.4}), Ranks{1});
  EXPECT_EQ(slowest({0.031, 0.029}), Ranks{});
  EXPECT_EQ(slowest({0.010, 0.001}), Ranks{}) << "a hundredth of the time is nothing to look for";
  EXPECT_EQ(slowest({0.40, 0.25, 0.41, 0.38}), Ranks{1});
  EXPECT_EQ(slowest({0.40, 0.25, 0.41, 0.38}, 20), Ranks{}) << "20 calls leave that to chance";
  EXPECT_EQ(slowest({0.40, 0.00, 0.41, 0.38}, 1), Ranks{1}) << "a rank that does not wait at all in one call has kept the others waiting in it";
  EXPECT_EQ(slowest({0.4, 0.0, 0.0, 0.4, 0.5}), (Ranks{1, 2}));
  EXPECT_EQ(slowest({0.5, 0.0, 0.0, 0.0}), Ranks{}) << "most of them wait for nobody: one root waits for all";
  EXPECT_EQ(slowest({0.5}), Ranks{});
  EXPECT_EQ(slowest({}), Ranks{});
}

// An exception ends the call that waits, and the wait of the program for it, which comes behind it in the trace.
TEST(TraceTotals, AJobThatWasEndedWhileItHungNamesTheRankThatHadNotCome) {
  const TemporaryFolder folder;
  constexpr auto failed = recorder::RankState::failed;
  make_trace(
      folder.path(),
      {.rank = 0,
       .now = began + 9000 * ms,
       .calls = {{.begun = began + 1 * ms, .done = began + 2 * ms, .sequence = 1},
                 {.begun = began + 10 * ms, .done = began + 8000 * ms, .sequence = 2, .queued = began + 10 * ms, .waited_for = 1, .has_failed = true},
                 program_waits(11 * ms, 8000 * ms, true)},
       .state = failed});
  make_trace(folder.path(), {.rank = 1,
                             .now = began + 9000 * ms,
                             .calls = {{.begun = began + 1 * ms, .done = began + 2 * ms, .sequence = 1}},
                             .state = recorder::RankState::ended});
  JobTrace trace = open_traces(folder.path(), "");
  const std::string verdict = verdict_of(trace, totals_of(trace, Merge(trace))).front();
  EXPECT_TRUE(verdict.starts_with("rank 1 has not come to all_reduce #2 of world")) << verdict;
}

}  // namespace
}  // namespace unisono::tools
