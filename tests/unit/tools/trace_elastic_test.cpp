// Traces of jobs that go on without lost ranks: several processes for one rank, and ranks that have other numbers in each generation.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "made_trace.h"
#include "trace/page.h"
#include "trace/totals.h"
#include "trace_reading.h"
#include "unisono/error.h"

using namespace unisono;
using namespace unisono::testing;
using namespace unisono::tools;

namespace {

MadeCall call(Operation operation, std::uint64_t begun, std::uint64_t done, std::uint64_t sequence, int generation, int peer = -1) {
  return {
      .operation = operation, .begun = began + begun * ms, .done = began + done * ms, .sequence = sequence, .peer = peer, .generation = generation};
}

/// Three ranks, of which rank 1 ends after its second call. In the second generation the ranks are rank 0, rank 2, and the process that comes in the
/// place of rank 1.
void make_replaced_rank(const std::string& folder) {
  constexpr auto all_reduce = Operation::all_reduce, broadcast = Operation::broadcast;
  make_trace(folder,
             {.rank = 0,
              .size = 3,
              .calls = {call(all_reduce, 1, 4, 1, 1), call(all_reduce, 5, 7, 2, 1), call(all_reduce, 20, 26, 1, 2), call(broadcast, 30, 36, 2, 2, 1)},
              .ranks = {{2, 0}},
              .file = "job.0.0"});
  make_trace(folder, {.rank = 1, .size = 3, .calls = {call(all_reduce, 2, 4, 1, 1), call(all_reduce, 6, 7, 2, 1)}, .file = "job.1.0"});
  make_trace(folder, {.rank = 2,
                      .size = 3,
                      .calls = {call(all_reduce, 3, 4, 1, 1), call(all_reduce, 5, 7, 2, 1), call(all_reduce, 21, 26, 1, 2),
                                call(broadcast, 35, 36, 2, 2, 1), call(Operation::recv, 40, 44, 3, 2, 2)},
                      .ranks = {{2, 1}},
                      .file = "job.2.0"});
  make_trace(folder, {.rank = 2,
                      .size = 3,
                      .began = began + 15 * ms,
                      .real = 5'000'000'000 + 15 * ms,
                      .calls = {call(all_reduce, 25, 26, 1, 2), call(broadcast, 31, 36, 2, 2, 1), call(Operation::send, 43, 44, 3, 2, 1)},
                      .ranks = {{2, 2}},
                      .file = "job.1.1.0"});
}

std::vector<std::string> names_in(const JobTrace& trace) {
  std::vector<std::string> names;
  for (const TracedRank& rank : trace.ranks) names.push_back(rank.name);
  return names;
}

}  // namespace

TEST(TraceOfElasticJob, CallsMeetThoseOfTheirGeneration) {
  const TemporaryFolder folder;
  make_replaced_rank(folder.path());
  JobTrace trace = open_traces(folder.path(), "");
  ASSERT_EQ(names_in(trace), (std::vector<std::string>{"0", "1", "1.1", "2"}));
  const Merge merge(trace);
  const int one = trace.ranks[1].number, newcomer = trace.ranks[2].number, two = trace.ranks[3].number;
  EXPECT_EQ((std::vector<int>{one, two}), (std::vector<int>{1, 2}));
  EXPECT_GT(newcomer, 2) << "it is none of the ranks of the start";
  const auto of_zero = slices_of(merge, 0), of_one = slices_of(merge, 1), of_newcomer = slices_of(merge, 2), of_two = slices_of(merge, 3);
  const auto expect_wait = [](const Slice& slice, std::uint64_t waited, int waited_for) {
    EXPECT_EQ(slice.waited, waited * ms);
    EXPECT_EQ(slice.waited_for, waited_for);
  };
  ASSERT_EQ(of_zero.size(), 4U);
  expect_wait(of_zero[0], 2, two);
  expect_wait(of_zero[1], 1, one);
  expect_wait(of_zero[2], 5, newcomer);
  expect_wait(of_zero[3], 5, two);  // the root is rank 1 of the second generation
  ASSERT_EQ(of_one.size(), 2U);
  expect_wait(of_one[0], 1, two);
  expect_wait(of_one[1], 0, -1);
  ASSERT_EQ(of_newcomer.size(), 3U);
  expect_wait(of_newcomer[0], 0, -1);
  expect_wait(of_newcomer[1], 4, two);
  ASSERT_EQ(of_two.size(), 5U);
  expect_wait(of_two[2], 4, newcomer);
  expect_wait(of_two[3], 0, -1);
  expect_wait(of_two[4], 3, newcomer);  // for a message
}

TEST(TraceOfElasticJob, TheSummaryHasBothProcessesOfARank) {
  const TemporaryFolder folder;
  make_replaced_rank(folder.path());
  JobTrace trace = open_traces(folder.path(), "");
  const Merge merge(trace);
  const Totals totals = totals_of(trace, merge);
  ASSERT_EQ(totals.ranks.size(), 4U);
  EXPECT_EQ(totals.steps, 4U) << "of both generations";
  EXPECT_EQ(totals.ranks[1].calls, 2U);
  EXPECT_EQ(totals.ranks[2].calls, 3U);
  EXPECT_EQ(totals.ranks[2].caused, (5 + 4 + 3) * ms);
  EXPECT_EQ(totals.ranks[2].last, 1U);
  EXPECT_EQ(totals.ranks[2].span, (44 - 15) * ms);
  const std::string text = trace_text(trace, totals);
  for (const char* part : {"job job: ", "3 of 3 ranks on 1 host", "1 process came while the job ran: rank 1.1\n", "no rank stands out", "   1.1 "})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

// Rank 2 of the second generation is the process in the place of rank 1. The one before it has ended, and nobody waits for that any more.
TEST(TraceOfElasticJob, AStandstillIsThatOfTheLastGeneration) {
  const TemporaryFolder folder;
  constexpr auto ended = recorder::RankState::ended;
  const auto waits = [](int generation) { return MadeCall{.begun = began + 30 * ms, .sequence = 2, .waited_for = 2, .generation = generation}; };
  const auto before = call(Operation::all_reduce, 1, 4, 1, 1), after = call(Operation::all_reduce, 20, 26, 1, 2);
  const auto make = [&](int rank, std::vector<MadeCall> calls, std::map<int, int> ranks, const std::string& file, std::uint64_t now = 5000) {
    make_trace(
        folder.path(),
        {.rank = rank, .size = 3, .now = began + now * ms, .calls = std::move(calls), .state = ended, .ranks = std::move(ranks), .file = file});
  };
  make(0, {before, after, waits(2)}, {{2, 0}}, "job.0.0");
  make(1, {before}, {}, "job.1.0", 5);
  make(2, {before, after, waits(2)}, {{2, 1}}, "job.2.0");
  make(2, {after}, {{2, 2}}, "job.1.1.0");
  const auto delays = standstill_of(open_traces(folder.path(), ""));
  ASSERT_EQ(delays.size(), 1U);
  const std::string& text = delays[0].text;
  EXPECT_NE(text.find("rank 1 has not come to all_reduce #2 of world of generation 2"), std::string::npos) << text;
  EXPECT_NE(text.find("ranks 0 and 2 wait"), std::string::npos) << text;
  EXPECT_EQ(text.find("ended"), std::string::npos) << text;
}

TEST(TraceOfElasticJob, TheFilesNameTheProcesses) {
  const TemporaryFolder folder;
  make_replaced_rank(folder.path());
  std::ofstream(folder.file("profile.json"))
      << R"({"traceEvents": [{"ph": "X", "name": "x", "ts": 20000, "dur": 1000}], "baseTimeNanoseconds": 5000000000})";
  JobTrace trace = open_traces(folder.path(), "");
  const Merge merge(trace);
  const std::vector<ProfilerFile> profiles{{.rank = 1, .path = folder.file("profile.json")}};
  write_chrome_trace(trace, merge, profiles, folder.file("trace.json"));
  const auto read = nlohmann::json::parse(text_of(folder.file("trace.json")));
  std::map<int, std::string> names;
  std::vector<int> profiled, waits;
  for (const auto& event : read.at("traceEvents")) {
    const int process = event.at("pid");
    if (event.at("name") == "process_name") names.emplace(process, event.at("args").at("name"));
    if (event.at("name") == "x") profiled.push_back(process);
    if (event.at("name") == "waits for rank 1.1") waits.push_back(process);
  }
  const int newcomer = trace.ranks[2].number;
  EXPECT_EQ(names, (std::map<int, std::string>{{0, "rank 0 on a"}, {1, "rank 1 on a"}, {2, "rank 2 on a"}, {newcomer, "rank 1.1 on a"}}));
  EXPECT_EQ(profiled, (std::vector<int>{newcomer})) << "the process that lived to write it";
  EXPECT_EQ(waits, (std::vector<int>{0, 2, 2}));
  write_page(trace, merge, totals_of(trace, merge), profiles, folder.file("trace.html"));
  const auto data = data_of(text_of(folder.file("trace.html")));
  EXPECT_EQ(data.at("ranks").at(2).at("name"), "1.1");
  EXPECT_EQ(data.at("ranks").at(2).at("rank"), newcomer);
  EXPECT_EQ(data.at("missing"), 0);
  EXPECT_EQ(data.at("came"), "1 process came while the job ran: rank 1.1");
  EXPECT_TRUE(data.at("profiles").contains("2"));
}

// The launchers of several hosts have one name for the job, and each an identity of its own, which is what their ranks know.
TEST(TraceOfElasticJob, FilesOfRanksThatCameLaterAreOfTheSameJob) {
  const TemporaryFolder folder;
  const auto make = [&](int rank, const std::string& launcher, const std::string& file) {
    make_trace(folder.path(), {.rank = rank, .job = launcher, .file = file});
  };
  make(0, "first", "3f.0.0");
  make(1, "second", "3f.1.0");
  make(1, "second", "3f.1.1.0");  // which is rank 1 of the second generation, too
  make(2, "third", "3f.2.1.0");   // of a host that was late
  make(3, "third", "3f.2.2.0");
  EXPECT_EQ(names_in(open_traces(folder.path(), "")), (std::vector<std::string>{"0", "1", "1.1", "2.1", "2.2"}));
  EXPECT_EQ(open_traces(folder.path(), "").name, "3f");
  EXPECT_EQ(open_traces(folder.path(), "").places(), 3);
  make(0, "first", "3f.0.1");
  make(1, "second", "3f.1.1");
  EXPECT_EQ(names_in(open_traces(folder.path(), "3f")), (std::vector<std::string>{"0", "1"})) << "all were started again";
  for (const char* other : {"3f.x.0", "3f.0.-1", "3f.0.1.2.3", ".0.1", "3f.0."}) make(0, "first", other);
  EXPECT_THROW(open_traces(folder.path(), ""), InvalidArgument) << "these are none of a launcher's";
  EXPECT_EQ(open_traces(folder.path(), "first").ranks.size(), 1U);
}

// No call has all processes in it, and the hosts are numbered anew in each generation.
TEST(TraceOfElasticJob, ClocksAreAlignedByTheCallsOfEachGeneration) {
  const TemporaryFolder folder;
  constexpr std::uint64_t other = 700 * began;  // the second host's clock when that of the first one is `began`
  const auto at = [](const MadeCall& of_first, std::uint64_t clock) {
    MadeCall moved = of_first;
    moved.begun = moved.begun - began + clock;
    moved.done = moved.done - began + clock;
    return moved;
  };
  const MadeCall first = call(Operation::all_reduce, 10, 12, 1, 1), second = call(Operation::all_reduce, 20'000, 20'002, 1, 2);
  make_trace(folder.path(), {.rank = 0, .calls = {first}, .file = "job.0.0"});
  make_trace(
      folder.path(),
      {.rank = 1, .host = "b", .began = other, .calls = {at(first, other), at(second, other)}, .node = 1, .ranks = {{2, 0}}, .file = "job.1.0"});
  make_trace(folder.path(), {.rank = 1, .began = began + 15 * ms, .calls = {second}, .node = 1, .file = "job.0.1.0"});
  JobTrace trace = open_traces(folder.path(), "");
  const Merge merge(trace);
  ASSERT_EQ(names_in(trace), (std::vector<std::string>{"0", "0.1", "1"}));
  ASSERT_EQ(trace.clocks.size(), 2U);
  EXPECT_EQ(trace.ranks[1].host, trace.ranks[0].host);
  EXPECT_TRUE(trace.clocks[1].is_measured);
  EXPECT_EQ(trace.clocks[1].knots.size(), 2U) << "of both generations";
  EXPECT_LE(trace.clocks[1].uncertainty_ns, 2 * ms);
  EXPECT_EQ(slices_of(merge, 2)[1].begin, 20'000 * ms);
}

// The text on a standstill compares the names of groups, of members from the start and of those that came later.
TEST(TraceOfElasticJob, RecordsTellGroupsByTheirGeneration) {
  using recorder::Recorder;
  const auto member = Recorder::make_private(), newcomer = Recorder::make_private();
  member->add_group("world", 4, {.generation = 1, .rank = 3});
  for (const auto& record : {member, newcomer}) {
    for (const int time : {1, 2}) {
      const std::uint16_t group = record->add_group("world", 4, {.generation = 2, .rank = 2});
      recorder::Recording(*record, {.operation = Operation::barrier, .group = group, .sequence = static_cast<std::uint64_t>(time)}).succeed();
    }
    const recorder::RankSeen seen = recorder::RecordReader(record->memory()).read();
    ASSERT_EQ(seen.recent.size(), 2U);
    EXPECT_EQ(seen.recent[0].group, "world of generation 2");
    EXPECT_EQ(seen.recent[1].group, "world of generation 2 (2)");
    EXPECT_EQ(seen.recent[0].generation, 2);
  }
}
