// The counts of the flight recorder by group and operation.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "recorder/reader.h"
#include "recorder/recorder.h"

using namespace unisono;
using recorder::RankSeen;
using recorder::Recorder;
using recorder::Recording;
using recorder::RecordReader;

namespace {

recorder::CountSeen count_in(const RankSeen& seen, const std::string& group, const std::string& operation) {
  std::vector<recorder::CountSeen> found;
  for (const auto& count : seen.counts) {
    if (count.group == group && count.operation == operation) found.push_back(count);
  }
  EXPECT_LE(found.size(), 1U) << "each once";
  return found.empty() ? recorder::CountSeen{} : found.front();
}

}  // namespace

TEST(RecorderCounts, ByGroupAndOperation) {
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

TEST(RecorderCounts, MoreThanItHasRoomFor) {
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
