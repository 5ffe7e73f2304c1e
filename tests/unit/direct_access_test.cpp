#include "engine/cooperative/direct_access.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "unisono/shared_memory.h"

using namespace unisono;
using engine::DirectAccess;

namespace {

constexpr std::uint32_t step = 3;

/// Two ranks' views of one segment, without an engine in between.
struct TwoRanks {
  std::shared_ptr<std::byte> memory = engine::private_memory(engine::Segment::size_for({.ranks = 2}));
  engine::Segment segment{{.ranks = 2}, memory.get(), memory};
  std::array<DirectAccess, 2> ranks{DirectAccess(segment, 0), DirectAccess(segment, 1)};

  /// One step of a call in which both announce; what each then expects of the next.
  std::array<bool, 2> call(const CollectiveCall& first, const CollectiveCall& second) {
    segment.line(0, step).announce(ranks[0].announce(first));
    segment.line(1, step).announce(ranks[1].announce(second));
    for (auto& rank : ranks) rank.note(step);
    return {ranks[0].expected(), ranks[1].expected()};
  }
};

CollectiveCall all_reduce_of(float* data, std::size_t n) {
  CollectiveCall call;
  call.operation = Operation::all_reduce;
  call.in = call.out = Tensor(data, DType::float32, n);
  call.count = n;
  return call;
}

constexpr std::array neither{false, false}, both{true, true};

}  // namespace

TEST(DirectAccess, IsExpectedOnceAllReachAll) {
  TwoRanks world;
  shared_vector<float> x(5000), y(5000);
  EXPECT_EQ(world.call(all_reduce_of(x.data(), 5000), all_reduce_of(y.data(), 5000)), neither);  // they could: now they map
  EXPECT_EQ(world.call(all_reduce_of(x.data(), 5000), all_reduce_of(y.data(), 5000)), both);
  EXPECT_TRUE(world.ranks[0].agreed(step));
  EXPECT_EQ(world.ranks[0].in(1, step), reinterpret_cast<const std::byte*>(y.data()));
  EXPECT_EQ(world.ranks[1].out(0, step), reinterpret_cast<const std::byte*>(x.data()));
  std::vector<float> ordinary(5000);
  EXPECT_EQ(world.call(all_reduce_of(x.data(), 5000), all_reduce_of(ordinary.data(), 5000)), neither);
  EXPECT_EQ(world.call(all_reduce_of(x.data(), 5000), all_reduce_of(y.data(), 5000)), both);
}

TEST(DirectAccess, IsNotExpectedWhereOneBufferLiesElsewhere) {
  shared_vector<float> x(5000), y(5000);
  std::vector<float> ordinary(5000);
  const CollectiveCall within = all_reduce_of(x.data(), 5000);
  CollectiveCall in_elsewhere = all_reduce_of(y.data(), 5000), out_elsewhere = in_elsewhere;
  in_elsewhere.in = out_elsewhere.out = Tensor(ordinary.data(), DType::float32, ordinary.size());
  for (const CollectiveCall& other : {in_elsewhere, out_elsewhere}) {
    TwoRanks world;
    for (int i = 0; i < 2; ++i) EXPECT_EQ(world.call(within, other), neither);
    for (int i = 0; i < 2; ++i) world.call(within, within);
    world.segment.line(1, step).announce(world.ranks[1].announce(other));
    for (auto& rank : world.ranks) {
      EXPECT_FALSE(rank.agreed(step));
      EXPECT_FALSE(rank.expected());
    }
  }
}

// As the root's input of a scatter is, and the output of all but the root of a gather; of processes.
TEST(DirectAccess, WhatIsEmptyLiesAnywhere) {
  TwoRanks world;
  for (int r = 0; r < 2; ++r) world.segment.member(r).pid = ::getpid();
  shared_vector<float> x(5000), y(5000);
  CollectiveCall without_output = all_reduce_of(x.data(), 5000), without_input = all_reduce_of(y.data(), 5000);
  without_output.out = without_input.in = Tensor(static_cast<float*>(nullptr), DType::float32, std::size_t{0});
  EXPECT_EQ(world.call(without_output, without_input), neither);
  EXPECT_EQ(world.call(without_output, without_input), both);
}

// A process whose memory cannot be reached, as where a sandbox hides /proc: nobody ever expects it, and nobody tries for ever.
TEST(DirectAccess, IsNeverExpectedWhereOneCannotBeReached) {
  TwoRanks world;
  shared_vector<float> x(5000), y(5000);
  world.segment.member(0).pid = ::getpid();
  world.segment.member(1).pid = 0x7fffffff;  // no such process
  for (int i = 0; i < 3; ++i) EXPECT_EQ(world.call(all_reduce_of(x.data(), 5000), all_reduce_of(y.data(), 5000)), neither);
  EXPECT_FALSE(world.ranks[0].agreed(step));
  EXPECT_FALSE(world.ranks[1].agreed(step));
}

TEST(DirectAccess, IsNotAskedForOnSmallOrOtherCalls) {
  shared_vector<float> x(5000);
  EXPECT_TRUE(DirectAccess::suits(all_reduce_of(x.data(), 1024)));
  EXPECT_FALSE(DirectAccess::suits(all_reduce_of(x.data(), 1023)));
  CollectiveCall scan = all_reduce_of(x.data(), 5000);
  scan.operation = Operation::scan;
  EXPECT_FALSE(DirectAccess::suits(scan));
}
