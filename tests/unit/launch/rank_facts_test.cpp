// The state of a rank as its record tells it: asynchronous calls wait for others while the program computes.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "launch/view/rank_facts.h"
#include "recorder/reader.h"
#include "recorder/recorder.h"

namespace unisono::launcher {
namespace {

using recorder::CallSeen;
using recorder::CallState;

constexpr std::uint64_t second = 1'000'000'000;

CallSeen call(const std::string& operation, CallState state, std::uint64_t queued, std::uint64_t begun, std::uint64_t done = 0) {
  CallSeen call;
  call.operation = operation;
  call.group = "world";
  call.state = state;
  call.queued = queued * second;
  call.begun = begun * second;
  call.done = done * second;
  return call;
}

RankFacts rank_with(std::vector<CallSeen> recent, std::uint64_t program_waits_since = 0) {
  RankFacts rank;
  rank.process.lives = true;
  rank.record.state = recorder::RankState::running;
  rank.record.began = 0;
  rank.record.now = 100 * second;
  rank.record.program_waits_since = program_waits_since * second;
  rank.record.recent = std::move(recent);
  return rank;
}

std::string shown(const RankFacts& rank) {
  const CallSeen* const call = call_shown(rank);
  return call == nullptr ? "" : call->operation;
}

TEST(RankFacts, ARankThatComputesBesidePostedReceivesIsInItsProgram) {
  const RankFacts rank = rank_with({call("all_reduce", CallState::done, 0, 10, 20), call("irecv", CallState::waiting, 30, 30)});
  EXPECT_EQ(shown(rank), "all_reduce");
  EXPECT_EQ(state_text(rank), "program");
  EXPECT_EQ(waiting_share(rank), 0);
  const RankFacts without_others = rank_with({call("irecv", CallState::waiting, 30, 30)});
  EXPECT_EQ(shown(without_others), "irecv");
  EXPECT_EQ(state_text(without_others), "program");
}

TEST(RankFacts, ABlockingCallIsShownBeforeOlderAsynchronousOnes) {
  const RankFacts rank = rank_with({call("irecv", CallState::waiting, 30, 30), call("all_reduce", CallState::waiting, 0, 60)});
  EXPECT_EQ(shown(rank), "all_reduce");
  EXPECT_EQ(state_text(rank), "waiting");
  EXPECT_EQ(wait_under_way(rank), 40 * second);
  EXPECT_EQ(waiting_share(rank), 0.4);
}

TEST(RankFacts, AProgramThatWaitsForAnAsynchronousCallWaitsSinceItAsked) {
  const RankFacts rank = rank_with({call("irecv", CallState::waiting, 30, 30), call("irecv", CallState::done, 31, 31, 32)}, 90);
  EXPECT_EQ(shown(rank), "irecv");
  EXPECT_EQ(state_text(rank), "waiting");
  EXPECT_EQ(wait_under_way(rank), 10 * second);
  EXPECT_EQ(waiting_share(rank), 0.1);
}

TEST(RankFacts, ACallThatIsPostedAndHasNotBegunIsNoWait) {
  const RankFacts rank = rank_with({call("all_reduce", CallState::queued, 30, 0)});
  EXPECT_EQ(state_text(rank), "queued");
  EXPECT_EQ(waiting_share(rank), 0);
}

// Those that go on without a lost rank, and with another process in its place, have other ranks than before.
TEST(RankFacts, ARankHasTheNumberOfTheLastGeneration) {
  const auto recorder = recorder::Recorder::make_private();
  recorder->set_identity({.rank = 2, .size = 4, .local_rank = 2, .node = 0, .host = "here", .job = "0123"});
  const auto seen = [&] { return facts_of(recorder::RecordReader(recorder->memory()).read()).record; };
  EXPECT_EQ(seen().rank, 2);
  EXPECT_EQ(seen().last.generation, 0);
  recorder->add_group("world", 4, {.generation = 1, .rank = 2});
  recorder->add_group("world", 3, {.generation = 2, .rank = 1});
  recorder->add_group("{0, 1}", 2, {.generation = 2, .rank = 1});
  EXPECT_EQ(seen().rank, 1);
  EXPECT_EQ(seen().size, 3);
  EXPECT_EQ(seen().last.generation, 2);
}

TEST(RankFacts, ANumberIsThatOfOneProcessAlone) {
  const auto rank = [](int number, int generation, bool has_joined, int pid) {
    RankFacts facts{.has_joined = has_joined};
    facts.record.rank = number;
    facts.record.last.generation = generation;
    facts.record.pid = pid;
    return facts;
  };
  const auto kept = [](std::vector<RankFacts> ranks) {
    keep_last_generation(ranks);
    std::vector<int> processes;
    for (const RankFacts& each : ranks) processes.push_back(each.record.pid);
    return processes;
  };
  EXPECT_EQ(kept({rank(0, 2, true, 10), rank(1, 1, true, 11), rank(1, 2, true, 12), rank(2, 0, false, 13)}), (std::vector{10, 12, 13}));
  EXPECT_EQ(kept({rank(1, 0, false, 11), rank(0, 3, true, 10), rank(1, 3, true, 12)}), (std::vector{10, 12}));
  EXPECT_EQ(kept({rank(0, 0, true, 10), rank(0, 0, true, 11)}), (std::vector{10, 11})) << "of two worlds that are no generations";
}

}  // namespace
}  // namespace unisono::launcher
