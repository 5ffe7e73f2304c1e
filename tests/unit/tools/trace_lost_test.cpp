// Traces of which the first calls are lost, in groups that send messages as well. These take numbers too, so that the number of a collective is not
// the same on all ranks, and what is left cannot be counted from the first one on.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "made_trace.h"
#include "trace/totals.h"
#include "trace_reading.h"

using namespace unisono;
using namespace unisono::testing;
using namespace unisono::tools;

namespace {

constexpr std::uint64_t room = recorder::trace_chunk;
constexpr std::uint64_t steps =
    room * 3 / 8;  // more than there is room for, and few enough that ranks with 3 and 5 calls a step keep the same numbers

/// Adds the steps of a rank that exchanges halos with some neighbours and then meets all others: all ranks come to that at the same time.
void add_steps(MadeRank& rank, std::uint64_t neighbours) {
  std::uint64_t sequence = 0;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const std::uint64_t at = rank.began + (step + 1) * ms;
    for (std::uint64_t i = 0; i < 2 * neighbours; ++i) {
      rank.calls.push_back({.operation = i % 2 == 0 ? Operation::send : Operation::recv,
                            .begun = at,
                            .done = at + 10 * us,
                            .sequence = ++sequence,
                            .peer = rank.rank == 0 ? 1 : rank.rank - 1});
    }
    rank.calls.push_back({.begun = at + 100 * us, .done = at + 200 * us, .sequence = ++sequence});
  }
}

}  // namespace

TEST(TraceOfLostCalls, CollectivesBesideMessagesAreNotMatched) {
  const TemporaryFolder folder;
  for (const int number : {0, 1, 2}) {
    MadeRank rank{.rank = number, .size = 3};
    add_steps(rank, number == 1 ? 2 : 1);
    // The last rank is late to a group in which no message was sent.
    const std::uint64_t at = rank.calls.back().done + ms;
    rank.calls.push_back({.begun = at + (number == 2 ? 3 * ms : 0), .done = at + 4 * ms, .sequence = 1, .group = "quiet"});
    make_trace(folder.path(), rank, room);
  }
  JobTrace trace = open_traces(folder.path(), "");
  ASSERT_GT(trace.lost, 0U);
  const Merge merge(trace);
  const Totals totals = totals_of(trace, merge);
  EXPECT_TRUE(totals.are_partial);
  EXPECT_EQ(totals.steps, 0U);
  for (const std::size_t rank : {0U, 1U, 2U}) {
    std::vector<Slice> slices = slices_of(merge, rank);
    EXPECT_EQ(slices.back().waited, rank == 2 ? 0U : 3 * ms) << "the other group's calls are matched";
    slices.pop_back();
    for (const Slice& slice : slices) ASSERT_EQ(slice.waited, 0U) << "rank " << rank << ", " << slice.begin;
  }
  EXPECT_NE(trace_text(trace, totals).find("not matched"), std::string::npos) << trace_text(trace, totals);
}

// The messages themselves may be among the calls that are lost.
TEST(TraceOfLostCalls, CallsBehindMessagesThatAreLostAreNotMatched) {
  const TemporaryFolder folder;
  for (const int number : {0, 1}) {
    MadeRank rank{.rank = number};
    std::uint64_t sequence = 0;
    for (int i = 0; i <= number; ++i)
      rank.calls.push_back({.operation = Operation::send, .begun = began + us, .done = began + 2 * us, .sequence = ++sequence, .peer = 1 - number});
    for (std::uint64_t step = 1; step <= room; ++step)
      rank.calls.push_back({.begun = began + step * ms, .done = began + step * ms + us, .sequence = ++sequence});
    make_trace(folder.path(), rank, room);
  }
  JobTrace trace = open_traces(folder.path(), "");
  ASSERT_EQ(trace.lost, 3U);
  const Merge merge(trace);
  const Totals totals = totals_of(trace, merge);
  EXPECT_EQ(totals.steps, 0U);
  EXPECT_EQ(totals.ranks[0].waiting + totals.ranks[1].waiting, 0U);
  EXPECT_NE(trace_text(trace, totals).find("it is not known which ranks have waited for which others"), std::string::npos)
      << trace_text(trace, totals);
}

TEST(TraceOfLostCalls, ClocksAreNotAlignedByThem) {
  const TemporaryFolder folder;
  for (const int number : {0, 1}) {
    MadeRank rank{.rank = number, .host = number == 0 ? "a" : "b", .began = number == 0 ? began : 700 * began};
    add_steps(rank, number == 0 ? 1 : 2);
    make_trace(folder.path(), rank, room);
  }
  JobTrace trace = open_traces(folder.path(), "");
  ASSERT_GT(trace.lost, 0U);
  const Merge merge(trace);
  ASSERT_EQ(trace.clocks.size(), 2U);
  EXPECT_FALSE(trace.clocks[1].is_measured);
  EXPECT_EQ(trace.clocks[1].knots.size(), 1U);
  EXPECT_NE(clock_texts(trace).at(0).find("no call shows how far it is off"), std::string::npos) << clock_texts(trace).at(0);
}
