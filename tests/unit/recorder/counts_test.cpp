// The counts of the flight recorder by group and operation.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "recorder/reader.h"
#include "recorder/recorder.h"
#include "recorder/ticks.h"

using namespace unisono;
using recorder::ProgramWait;
using recorder::RankSeen;
using recorder::Recorder;
using recorder::Recording;
using recorder::RecordReader;
using recorder::steady_ns;

namespace {

recorder::CountSeen count_in(const RankSeen& seen, const std::string& group, const std::string& operation) {
  std::vector<recorder::CountSeen> found;
  for (const auto& count : seen.counts) {
    if (count.group == group && count.operation == operation) found.push_back(count);
  }
  EXPECT_LE(found.size(), 1U) << "each once";
  return found.empty() ? recorder::CountSeen{} : found.front();
}

void pass(std::chrono::nanoseconds time) {
  const std::uint64_t until = steady_ns() + static_cast<std::uint64_t>(time.count());
  while (steady_ns() < until) continue;
}

}  // namespace

TEST(RecorderCounts, CallsAreCountedByGroupAndOperation) {
  const auto recorder = Recorder::make_private();
  const std::uint16_t world = recorder->add_group("world", 4), pair = recorder->add_group("{0, 2}", 2), again = recorder->add_group("{0, 2}", 2);
  constexpr std::array<char, 5> text{"mean"}, same_text{"mean"};  // a label may lie at two places
  const auto make = [&](std::uint16_t group, Operation operation, std::uint64_t bytes, std::string_view label = {}, bool well = true) {
    Recording recording(*recorder, {.operation = operation, .label = label, .group = group, .sequence = 1, .bytes = bytes});
    if (well) recording.succeed();
  };
  for (int i = 0; i < 3; ++i) make(world, Operation::all_reduce, 100);
  make(world, Operation::broadcast, 7);
  make(world, Operation::all_reduce, 20, text.data());
  make(world, Operation::all_reduce, 30, same_text.data());
  make(pair, Operation::all_reduce, 1);
  make(again, Operation::all_reduce, 2, {}, false);
  std::thread([&] { make(world, Operation::all_reduce, 1000); }).join();
  const Recorder::Call waiting = recorder->begin({.operation = Operation::all_reduce, .group = world, .sequence = 9, .bytes = 5});
  recorder->wait(waiting, 1, 1);
  EXPECT_EQ(count_in(RecordReader(recorder->memory()).read(), "world", "all_reduce").waited, 0U) << "it is not over";
  recorder->end(waiting, true);
  const RankSeen seen = RecordReader(recorder->memory()).read();
  const auto all_reduces = count_in(seen, "world", "all_reduce");
  EXPECT_EQ(all_reduces.calls, 5U);
  EXPECT_EQ(all_reduces.bytes, 1305U);
  EXPECT_EQ(all_reduces.failures, 0U);
  EXPECT_GT(all_reduces.waited, 0U);
  EXPECT_EQ(seen.waited, all_reduces.waited);
  EXPECT_EQ(count_in(seen, "world", "broadcast").bytes, 7U);
  EXPECT_EQ(count_in(seen, "world", "broadcast").waited, 0U);
  EXPECT_EQ(count_in(seen, "world", "mean").bytes, 50U);
  EXPECT_EQ(count_in(seen, "{0, 2}", "all_reduce").calls, 2U) << "of both groups of that name";
  EXPECT_EQ(count_in(seen, "{0, 2}", "all_reduce").failures, 1U);
  EXPECT_EQ(seen.counts.size(), 4U);
  EXPECT_EQ(seen.calls, 10U);
  EXPECT_EQ(seen.bytes, 1365U);
}

// Asynchronous calls wait for others while the program computes, and several at a time.
TEST(RecorderCounts, WaitsForAsynchronousCallsAreThoseOfTheProgram) {
  const auto recorder = Recorder::make_private();
  const std::uint16_t world = recorder->add_group("world", 2);
  const auto post = [&](Operation operation) {
    const Recorder::Call call = recorder->queue_and_run({.operation = operation, .group = world, .sequence = 1, .bytes = 5});
    recorder->wait(call, 1, 1);
    return call;
  };
  const auto waited = [&] { return RecordReader(recorder->memory()).read().waited; };
  recorder->end(post(Operation::recv), true);
  EXPECT_EQ(waited(), 0U) << "the program did not wait for it";

  constexpr int overlapping = 16;
  std::vector<Recorder::Call> calls;
  for (int i = 0; i < overlapping; ++i) calls.push_back(post(Operation::all_reduce));
  const std::uint64_t began = steady_ns();
  {
    const ProgramWait waiting(*recorder);
    pass(std::chrono::milliseconds(2));
    for (const Recorder::Call& call : calls) recorder->end(call, true);
  }
  const std::uint64_t passed = steady_ns() - began;
  EXPECT_GT(waited(), 0U);
  EXPECT_LT(waited(), 2 * passed) << "each moment counts once";

  const std::uint64_t before = waited();
  const std::uint64_t at_send = steady_ns();
  const Recorder::Call sending = recorder->begin({.operation = Operation::send, .group = world, .sequence = 2, .bytes = 5});
  const Recorder::Call receiving = recorder->begin({.operation = Operation::recv, .group = world, .sequence = 3, .bytes = 5});
  for (const Recorder::Call& call : {sending, receiving}) recorder->wait(call, 1, 1);
  pass(std::chrono::milliseconds(2));
  for (const Recorder::Call& call : {sending, receiving}) recorder->end(call, true);
  EXPECT_GT(waited(), before);
  EXPECT_LT(waited() - before, 2 * (steady_ns() - at_send)) << "both are one wait";
}

TEST(RecorderCounts, MoreGroupsThanItHasRoomForAreStillCounted) {
  const auto recorder = Recorder::make_private();
  constexpr std::uint64_t groups = 100, operations = 15;
  for (std::uint64_t g = 0; g < groups; ++g) {
    const std::uint16_t group = recorder->add_group("group " + std::to_string(g), 2);
    for (std::uint64_t o = 0; o < operations; ++o) {
      Recording recording(*recorder, {.operation = operation_table[o].operation, .group = group, .bytes = g + 1});
      recording.succeed();
    }
  }
  const RankSeen seen = RecordReader(recorder->memory()).read();
  std::uint64_t calls = 0;
  for (const auto& count : seen.counts) calls += count.calls;
  EXPECT_EQ(calls, groups * operations);
  EXPECT_EQ(seen.bytes, operations * groups * (groups + 1) / 2);
  EXPECT_EQ(count_in(seen, "group 0", "barrier").calls, 1U);
  EXPECT_EQ(count_in(seen, "group 0", "barrier").bytes, 1U);
  EXPECT_GT(count_in(seen, "", "").calls, 0U) << "the rest is counted together";
}

/// Returns the count of the last call that the record has.
recorder::CountSeen count_of_last(const Recorder& recorder) {
  const RankSeen seen = RecordReader(recorder.memory()).read(1);
  EXPECT_EQ(seen.recent.size(), 1U);
  return seen.recent.empty() || seen.recent[0].count < 0 ? recorder::CountSeen{} : seen.counts.at(static_cast<std::size_t>(seen.recent[0].count));
}

TEST(RecorderCounts, ACallSaysWhereItIsCounted) {
  const auto recorder = Recorder::make_private();
  const std::string of_many = "{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}";  // longer than the name that a group has beside its calls
  const std::uint16_t pair = recorder->add_group("{0, 1}", 2), again = recorder->add_group("{0, 1}", 2), many = recorder->add_group(of_many, 16);
  const auto made_in = [&](std::uint16_t group, Operation operation, std::string_view label = {}) {
    Recording recording(*recorder, {.operation = operation, .label = label, .group = group, .sequence = 1, .bytes = Recorder::timed_bytes});
    return count_of_last(*recorder);
  };
  constexpr std::array<char, 5> text{"mean"}, same_text{"mean"};  // a label may lie at two places
  made_in(pair, Operation::all_reduce, text.data());
  EXPECT_EQ(made_in(again, Operation::barrier).group, "{0, 1}");
  EXPECT_EQ(made_in(many, Operation::scan).group, of_many);
  EXPECT_EQ(made_in(many, Operation::scan).operation, "scan");
  EXPECT_EQ(made_in(pair, Operation::all_reduce, same_text.data()).calls, 2U) << "of both labels";
  std::thread([&] { EXPECT_EQ(made_in(pair, Operation::gather).operation, "gather"); }).join();
  for (int more = 0; more < 100; ++more) recorder->add_group("group " + std::to_string(more), 2);
  EXPECT_EQ(made_in(pair, Operation::barrier).group, "{0, 1}") << "its own text has made room for later ones";
  EXPECT_EQ(made_in(recorder->add_group("another", 2), Operation::scan).operation, "scan");
  EXPECT_EQ(count_of_last(*recorder).group, "") << "there was no room for its name";
}

TEST(RecorderCounts, ACallThatIsCountedWithTheRestSaysSo) {
  const auto recorder = Recorder::make_private();
  for (int g = 0; g < 30; ++g) {
    const std::uint16_t group = recorder->add_group("group " + std::to_string(g), 2);
    for (const auto& row : operation_table) Recording(*recorder, {.operation = row.operation, .group = group}).succeed();
  }
  const recorder::CountSeen last = count_of_last(*recorder);
  EXPECT_EQ(last.group, "");
  EXPECT_EQ(last.operation, "");
  EXPECT_GT(last.calls, 1U);
}
