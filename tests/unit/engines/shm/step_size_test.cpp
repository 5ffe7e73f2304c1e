// How much a step through shared memory carries, and how its results are written.
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/processors.h"
#include "engines/shm/engine.h"
#include "engines/shm/result_writer.h"
#include "unisono/error.h"

using namespace unisono;
using engines::shm::asked_step_kib;
using engines::shm::ResultWriter;
using engines::shm::slot_bytes_for;
using engines::shm::streams_from;

namespace {

constexpr std::size_t kib = 1024;

base::Environment environment(const std::string& name, const std::string& value) {
  return base::Environment(std::map<std::string, std::string, std::less<>>{{name, value}});
}

std::size_t step_of(int ranks, bool is_crowded, std::uint32_t asked_kib = 0) {
  return engines::shm::step_bytes(slot_bytes_for(ranks), asked_kib, is_crowded);
}

CollectiveCall call_of(Operation operation, std::vector<float>& in, std::vector<float>& out, int root = -1) {
  CollectiveCall call;
  call.operation = operation;
  call.in = TensorView(in.data(), DType::float32, in.size());
  call.out = TensorView(out.data(), DType::float32, out.size());
  call.count = in.size();
  call.root = root;
  return call;
}

}  // namespace

TEST(StepSize, AllSlotsTake16MiBWhereThatIsEnough) {
  EXPECT_EQ(slot_bytes_for(1), 1024 * kib);
  EXPECT_EQ(slot_bytes_for(4), 1024 * kib);
  EXPECT_EQ(slot_bytes_for(5), 512 * kib);
  EXPECT_EQ(slot_bytes_for(8), 512 * kib);
  EXPECT_EQ(slot_bytes_for(32), 128 * kib);
  EXPECT_EQ(slot_bytes_for(1024), 128 * kib);
}

TEST(StepSize, RanksThatShareProcessorsTakeLongSteps) {
  EXPECT_EQ(step_of(2, false), 256 * kib);
  EXPECT_EQ(step_of(2, true), 1024 * kib);
  EXPECT_EQ(step_of(8, true), 512 * kib);
  EXPECT_EQ(step_of(64, false), 128 * kib);
}

TEST(StepSize, WhatRank0WasAskedForHolds) {
  EXPECT_EQ(step_of(2, true, 64), 64 * kib);
  EXPECT_EQ(step_of(2, false, 64), 64 * kib);
  EXPECT_EQ(step_of(8, false, 1024), 512 * kib) << "a slot is not larger";
  EXPECT_EQ(asked_step_kib(base::Environment()), 0U);
  EXPECT_EQ(asked_step_kib(environment("UNISONO_STEP_SIZE", "16")), 16U);
  for (const char* wrong : {"0", "3", "1025", "-8", "128KiB"})
    EXPECT_THROW(static_cast<void>(asked_step_kib(environment("UNISONO_STEP_SIZE", wrong))), InvalidArgument) << wrong;
}

TEST(ResultWriter, ResultsAreStreamedFromASizeOn) {
  const std::size_t second = base::second_level_cache();
  EXPECT_EQ(streams_from(base::Environment()), std::clamp(base::third_level_cache() / 4, 16 * second, 32 * second));
  EXPECT_EQ(streams_from(environment("UNISONO_STREAM_FROM", "64")), 64 * kib);
  for (const char* wrong : {"-1", "all", "64KiB"})
    EXPECT_THROW(static_cast<void>(streams_from(environment("UNISONO_STREAM_FROM", wrong))), InvalidArgument) << wrong;
}

TEST(ResultWriter, StreamsWhereTheOutputsOfAllRanksAreLarge) {
  std::vector<float> in(1000), out(1000);
  const auto streams = [&](Operation operation, std::vector<float>& to, int rank, int ranks, std::size_t from, int root = -1) {
    return ResultWriter(call_of(operation, in, to, root), rank, ranks, from).streams();
  };
  EXPECT_TRUE(streams(Operation::all_gather, out, 0, 2, 8000));
  EXPECT_FALSE(streams(Operation::all_gather, out, 0, 2, 8001));
  EXPECT_TRUE(streams(Operation::gather, out, 1, 2, 4000, 1));
  EXPECT_FALSE(streams(Operation::gather, out, 1, 2, 4001, 1)) << "one output";
  EXPECT_FALSE(streams(Operation::gather, out, 0, 2, 4000, 1)) << "none";
  EXPECT_TRUE(streams(Operation::all_reduce, out, 0, 2, 8000));
  EXPECT_FALSE(streams(Operation::all_reduce, in, 0, 2, 8000)) << "the result's place has been read";
  EXPECT_TRUE(streams(Operation::broadcast, in, 1, 2, 8000, 0));
}

TEST(ResultWriter, BothWaysWriteTheSame) {
  constexpr std::size_t n = 100'003;  // many chunks, and a part of one
  std::vector<float> first(n), second(n), cached(n + 3), streamed(n + 3);
  std::iota(first.begin(), first.end(), 0.25F);
  std::iota(second.begin(), second.end(), -7.0F);
  for (const std::size_t at : {0, 1, 3}) {  // elements from the beginning, so that lines begin elsewhere
    const CollectiveCall call = call_of(Operation::all_reduce, first, cached);
    const void* const inputs[] = {first.data(), second.data()};
    ResultWriter(call, 0, 2, n * 1000).combine(cached.data() + at, inputs, 2, n, call, 2);
    ResultWriter(call, 0, 2, 0).combine(streamed.data() + at, inputs, 2, n, call, 2);
    EXPECT_EQ(cached, streamed);
    EXPECT_EQ(streamed[at + n - 1], first[n - 1] + second[n - 1]);
    ResultWriter(call, 0, 2, 0).copy(streamed.data() + at, first.data(), n * sizeof(float));
    EXPECT_TRUE(std::equal(first.begin(), first.end(), streamed.begin() + static_cast<std::ptrdiff_t>(at)));
    cached = streamed;
  }
}
