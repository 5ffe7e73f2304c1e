// The start of a job, repeated calls, shaped links, and the sizes at which algorithms cross.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "simulate/crossing.h"
#include "simulate/report.h"
#include "simulate/startup.h"

namespace unisono::simulate {
namespace {

Call job_of(int ranks, int per_host) {
  Call call;
  call.operation = Operation::barrier;
  call.ranks = ranks;
  call.ranks_per_host = per_host;
  return call;
}

Startup start_of(int ranks, int per_host, Design design, const StartupCosts& costs = {}) {
  const Call call = job_of(ranks, per_host);
  return start_up(call, {}, costs, design, simulate(call, {}));
}

double seconds_of(const Startup& start, std::string_view phase) {
  const auto found = std::ranges::find(start.phases, phase, &Phase::name);
  return found == start.phases.end() ? -1 : found->seconds;
}

TEST(SimulatorStart, RequestsOfTheStoreGrowWithTheSquareOfTheRanksWhereAllConnect) {
  const Startup few = start_of(100, 1, Design::eager), many = start_of(1000, 1, Design::eager);
  // Of each launcher 8, and 3 to read their records. Of each rank 5 to join, 1 about engines, and 2 each for the verdict on both; all seats, and all
  // answers about engines, which are waited for together. Addresses and secret 3 for each rank, and the address of every higher rank.
  EXPECT_DOUBLE_EQ(few.requests, 100 * 8 + 3 + 100 * (5 + 1 + 2 * 2) + 3 + 100 * 3 + 100 * 99 / 2.0);
  EXPECT_DOUBLE_EQ(many.requests, 1000 * 8 + 3 + 1000 * (5 + 1 + 2 * 2) + 3 + 1000 * 3 + 1000 * 999 / 2.0);
  EXPECT_GT(seconds_of(many, "addresses"), 50 * seconds_of(few, "addresses"));
  EXPECT_DOUBLE_EQ(few.connections, 99);
  // the list of launchers, that of members twice, the keys of addresses, and the seats
  EXPECT_DOUBLE_EQ(many.store_bytes, 1000.0 * 1000 * (5 + 27 + 6 + 2 * (5 + 27) + 40) + 1000 * 120);
  EXPECT_DOUBLE_EQ(many.heartbeats, 999);
}

TEST(SimulatorStart, RanksOfAHostAreNotConnected) {
  EXPECT_DOUBLE_EQ(start_of(64, 8, Design::present).connections, 56);
  EXPECT_EQ(seconds_of(start_of(64, 1, Design::present), "host exchange"), 0);
  EXPECT_GT(seconds_of(start_of(64, 8, Design::present), "host exchange"), 0);
}

TEST(SimulatorStart, OneHostHasNoOtherLaunchers) {
  EXPECT_EQ(seconds_of(start_of(8, 8, Design::present), "launchers"), -1);
  EXPECT_GT(seconds_of(start_of(16, 8, Design::present), "launchers"), 0);
  EXPECT_LT(seconds_of(start_of(10000, 8, Design::present), "launchers"), 0.5);  // linear in the hosts, but for 38 bytes of a list
}

TEST(SimulatorStart, ConnectionsAboveTheLimitAreThoseOfTheBarrierAndTheTree) {
  EXPECT_DOUBLE_EQ(start_of(65, 1, Design::present).connections, 64);
  const Call call = job_of(1024, 1);
  const Outcome barrier = simulate(call, {});
  const Startup start = start_up(call, {}, {}, Design::present, barrier);
  EXPECT_EQ(start.connections, barrier.connections + 8 + 1);
  EXPECT_EQ(start.heartbeats, start.connections);
  // Of each rank 5 to join, 1 about engines, 2 about the parent; of each launcher 8 of its own, and 2 for each of 4 values that its ranks share;
  // those that read all seats, answers and records.
  EXPECT_DOUBLE_EQ(start.requests, 1024 * (8 + 8 + 8) + 2 + 3 + 5);
  EXPECT_LT(start.memory_bytes, start_of(1024, 1, Design::eager).memory_bytes / 5);
  EXPECT_LT(start.seconds(), start_of(1024, 1, Design::eager).seconds() / 5);
  EXPECT_EQ(start_of(1024, 8, Design::present).connections, simulate(job_of(1024, 8), {}).connections + 8 + 7 + 1);
}

TEST(SimulatorStart, LaunchersTakeWorkFromTheStore) {
  const Startup launched = start_of(10000, 64, Design::present), by_rank = start_of(10000, 64, Design::by_rank);
  EXPECT_LT(launched.requests, by_rank.requests / 2);
  EXPECT_LT(launched.store_bytes, by_rank.store_bytes / 20) << "the list of members leaves host 0 twice for each host, and not for each rank";
  EXPECT_LT(launched.seconds(), by_rank.seconds() / 4);
  EXPECT_EQ(seconds_of(by_rank, "launchers"), -1);
  EXPECT_LT(launched.seconds(), 1);
  EXPECT_LT(start_of(100000, 64, Design::present).seconds(), 5);
}

TEST(SimulatorStart, RanksOfOneHostHaveTheStoreInTheirLauncher) {
  const Startup launched = start_of(8, 8, Design::present), by_rank = start_of(8, 8, Design::by_rank);
  EXPECT_DOUBLE_EQ(launched.requests, by_rank.requests);
  EXPECT_DOUBLE_EQ(launched.seconds(), by_rank.seconds());
}

TEST(SimulatorStart, TheSumIsThatOfThePhases) {
  for (const Design design : {Design::present, Design::eager, Design::by_rank}) {
    const Startup start = start_of(500, 4, design);
    EXPECT_DOUBLE_EQ(start.seconds(), std::accumulate(start.phases.begin(), start.phases.end(), 0.0,
                                                      [](double sum, const Phase& phase) { return sum + phase.seconds; }));
    EXPECT_TRUE(std::ranges::all_of(start.phases, [](const Phase& phase) { return phase.seconds == 0 || !phase.limit.empty(); }));
  }
}

TEST(SimulatorStart, TheFirstBarrierOfAHundredThousandRanksIsFolded) {
  const Outcome barrier = simulate(job_of(100000, 1), {});
  EXPECT_EQ(barrier.computed, 1);
  EXPECT_EQ(barrier.rounds, 9);            // the logarithm to base 4
  EXPECT_EQ(barrier.connections, 2 * 25);  // three in eight of them, one in the last
}

Call call_of(std::string_view algorithm, int ranks, std::size_t bytes) {
  Call call;
  call.algorithm = algorithm;
  call.ranks = ranks;
  call.bytes = bytes;
  call.has_agreement = false;
  return call;
}

TEST(SimulatorCalls, TheLastOfCallsThatBeginTogetherTakesAsLongAsOne) {
  Call call = call_of("ring", 6, 600000);
  const Outcome once = simulate(call, {.folding = Folding::never});
  call.calls = 5;
  call.are_apart = true;
  const Outcome last = simulate(call, {.folding = Folding::never});
  EXPECT_NEAR(last.us, once.us, 1e-6);
  EXPECT_EQ(last.messages, once.messages);
  EXPECT_DOUBLE_EQ(last.bytes, once.bytes);
  EXPECT_DOUBLE_EQ(last.links[0].most_bytes, once.links[0].most_bytes);
}

// The ranks of a chain are at work on several calls at a time, where nothing keeps them together.
TEST(SimulatorCalls, CallsThatDoNotWaitOverlap) {
  Call call = call_of("chain", 8, 1 << 20);
  call.operation = Operation::broadcast;
  const double once = simulate(call, {}).us;
  call.calls = 6;
  EXPECT_LT(simulate(call, {}).us, 0.9 * once);
}

TEST(SimulatorCalls, AShapedLinkLetsItsBucketPassAtOnce) {
  Parameters parameters;
  parameters.network = {.ns_per_byte = 0.1};
  parameters.link_gbit = 1;  // 8 ns for each byte
  parameters.link_burst_bytes = 65536;
  parameters.copy_ns_per_byte = 0;
  Call call = call_of("binomial", 2, 65536);
  call.operation = Operation::broadcast;
  EXPECT_NEAR(simulate(call, {.parameters = parameters}).us, 6.5536, 1e-6);
  call.bytes = 3 * 65536;
  EXPECT_NEAR(simulate(call, {.parameters = parameters}).us, 2 * 65.536 * 8, 1e-3);
  call.bytes = 65536;
  call.calls = 4;
  call.are_apart = true;  // the first one has emptied the bucket
  EXPECT_NEAR(simulate(call, {.parameters = parameters}).us, 65.536 * 8, 1e-3);
}

TEST(SimulatorCrossing, TheSearchFindsWhereTheFastestChanges) {
  Call call = call_of("", 64, 8);
  const Crossing crossing = cross(call, {}, 1 << 24);
  ASSERT_EQ(crossing.algorithms.size(), 6U);  // without two_levels: every rank has a host of its own
  ASSERT_GE(crossing.points().size(), 1U);
  for (const Crossing::Row& row : crossing.rows) {
    EXPECT_EQ(row.us[row.fastest], *std::ranges::min_element(row.us));
    EXPECT_TRUE(std::ranges::find(crossing.algorithms, row.selected) != crossing.algorithms.end());
  }
  // At the point itself the two algorithms take nearly the same time.
  for (const Crossing::Point& point : crossing.points()) {
    call.bytes = point.bytes / 4 * 4;
    call.algorithm = point.below;
    const double below = simulate(call, {}).us;
    call.algorithm = point.above;
    EXPECT_NEAR(simulate(call, {}).us / below, 1, 0.2) << point.bytes;
  }
}

TEST(SimulatorCrossing, ACurveHasAPointForEverySizeThatWasSimulated) {
  const Crossing crossing{.algorithms = {"ring", "<&>"},
                          .rows = {{.bytes = 8, .us = {10, 5}, .fastest = 1, .selected = "ring", .selected_us = 10},
                                   {.bytes = 32, .us = {10, Crossing::none}, .fastest = 0, .selected = "ring", .selected_us = 10},
                                   {.bytes = 128, .us = {20, 40}, .fastest = 0, .selected = "ring", .selected_us = 20}}};
  const std::string svg = svg_of(crossing, "all_reduce < all");
  const auto count = [&](std::string_view word) {
    int found = 0;
    for (auto at = svg.find(word); at != std::string::npos; at = svg.find(word, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("<polyline"), 3);  // the second one is interrupted
  EXPECT_EQ(count("<circle"), 3);
  EXPECT_EQ(count("&lt;&amp;&gt;"), 1);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

}  // namespace
}  // namespace unisono::simulate
