#include "engines/shm/direct_access.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "unisono/shared_memory.h"

using namespace unisono;
using engines::shm::DirectAccess;

namespace {

constexpr std::uint32_t step = 3;

/// Two ranks' views of one segment, without an engine in between.
struct TwoRanks {
  std::shared_ptr<std::byte> memory = engines::shm::private_memory(engines::shm::Segment::size_for({.ranks = 2}));
  engines::shm::Segment segment{{.ranks = 2}, memory.get(), memory};
  std::array<DirectAccess, 2> ranks{DirectAccess(segment, 0), DirectAccess(segment, 1)};

  /// A step of a call in which both announce; each then has expectations of the next step.
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
  call.in = call.out = TensorView(data, DType::float32, n);
  call.count = n;
  return call;
}

/// Of rank 0 of two, which sends all of x to rank 1.
CollectiveCall all_to_all_v_of(float* x, std::size_t n) {
  CollectiveCall call;
  call.operation = Operation::all_to_all_v;
  call.in = TensorView(x, DType::float32, n);
  call.out = TensorView(static_cast<float*>(nullptr), DType::float32, std::size_t{0});
  call.counts = Counts{std::size_t{0}, n};
  call.recv_counts = Counts{0, 0};
  return call;
}

/// Every part of a segment as where it begins and how long it is.
std::vector<std::pair<const std::byte*, std::size_t>> parts_of(const engines::shm::Segment& segment) {
  const auto bytes = [](const auto& part) { return std::pair(reinterpret_cast<const std::byte*>(&part), sizeof part); };
  std::vector parts{bytes(segment.failure())};
  for (int r = 0; r < segment.ranks(); ++r) {
    parts.push_back(bytes(segment.member(r)));
    for (const std::uint32_t parity : {0U, 1U}) {
      parts.push_back(bytes(segment.line(r, parity)));
      parts.emplace_back(segment.inbox(r, parity), segment.slot_bytes());
      parts.emplace_back(segment.result(r, parity), segment.slot_bytes());
    }
    for (int to = 0; to < segment.ranks(); ++to) {
      parts.push_back(bytes(segment.ring(r, to)));
      parts.emplace_back(segment.ring_data(r, to), segment.ring_bytes());
    }
  }
  return parts;
}

constexpr std::array neither{false, false}, both{true, true};

}  // namespace

TEST(DirectAccess, DirectAccessIsExpectedOnceAllReachAll) {
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

TEST(DirectAccess, DirectAccessIsNotExpectedWhereOneBufferLiesElsewhere) {
  shared_vector<float> x(5000), y(5000);
  std::vector<float> ordinary(5000);
  const CollectiveCall within = all_reduce_of(x.data(), 5000);
  CollectiveCall in_elsewhere = all_reduce_of(y.data(), 5000), out_elsewhere = in_elsewhere;
  in_elsewhere.in = out_elsewhere.out = TensorView(ordinary.data(), DType::float32, ordinary.size());
  for (const CollectiveCall& other : {in_elsewhere, out_elsewhere}) {
    TwoRanks world;
    for (int i = 0; i < 2; ++i) EXPECT_EQ(world.call(within, other), neither);
    for (int i = 0; i < 2; ++i) world.call(within, within);
    world.segment.line(1, step).announce(world.ranks[1].announce(other));
    for (auto& rank : world.ranks) {
      EXPECT_FALSE(rank.agreed(step));
      rank.note(step);
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
  without_output.out = without_input.in = TensorView(static_cast<float*>(nullptr), DType::float32, std::size_t{0});
  EXPECT_EQ(world.call(without_output, without_input), neither);
  EXPECT_EQ(world.call(without_output, without_input), both);
  EXPECT_EQ(world.ranks[0].in(1, step), nullptr);
  EXPECT_NE(world.ranks[0].out(1, step), nullptr);
}

// A process whose memory cannot be reached, as where a sandbox hides /proc: nobody ever expects it, and nobody tries for ever.
TEST(DirectAccess, DirectAccessIsNeverExpectedWhereOneCannotBeReached) {
  TwoRanks world;
  shared_vector<float> x(5000), y(5000);
  world.segment.member(0).pid = ::getpid();
  world.segment.member(1).pid = 0x7fffffff;  // no such process
  for (int i = 0; i < 3; ++i) EXPECT_EQ(world.call(all_reduce_of(x.data(), 5000), all_reduce_of(y.data(), 5000)), neither);
  for (auto& rank : world.ranks) EXPECT_FALSE(rank.agreed(step));
}

// In an all_to_all_v each rank decides for itself; it needs to know that the others have mapped its pool, whatever the call before was.
TEST(DirectAccess, DirectAccessOfAnAllToAllVBeginsWithTheRanksOwnPart) {
  TwoRanks world;
  shared_vector<float> x(5000), y(5000);
  std::vector<float> ordinary(5000);
  const CollectiveCall large = all_to_all_v_of(x.data(), 5000);
  EXPECT_TRUE(world.ranks[0].suits(large));
  EXPECT_FALSE(world.ranks[0].suits(all_to_all_v_of(x.data(), 2047)));
  EXPECT_TRUE(world.ranks[0].suits(all_to_all_v_of(x.data(), 2048)));
  EXPECT_FALSE(world.ranks[0].leaves_in_buffer(large));
  world.call(all_reduce_of(x.data(), 5000), all_reduce_of(y.data(), 5000));
  EXPECT_FALSE(world.ranks[0].leaves_in_buffer(large)) << "one has not told yet";
  world.call(all_reduce_of(x.data(), 5000), all_reduce_of(y.data(), 5000));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(world.ranks[0].leaves_in_buffer(large));
    EXPECT_FALSE(world.ranks[0].leaves_in_buffer(all_to_all_v_of(x.data(), 2047)));
    EXPECT_FALSE(world.ranks[0].leaves_in_buffer(all_to_all_v_of(ordinary.data(), 5000)));
    EXPECT_FALSE(world.ranks[0].begins(large)) << "it has no step with an announcement alone";
    world.call(all_reduce_of(x.data(), 5000), all_reduce_of(ordinary.data(), 5000));
  }
}

TEST(DirectAccess, DirectAccessIsNotAskedForOnSmallOrOtherCalls) {
  const TwoRanks world;
  shared_vector<float> x(5000);
  EXPECT_TRUE(world.ranks[0].suits(all_reduce_of(x.data(), 1024)));
  EXPECT_FALSE(world.ranks[0].suits(all_reduce_of(x.data(), 1023)));
  CollectiveCall scan = all_reduce_of(x.data(), 5000);
  scan.operation = Operation::scan;
  EXPECT_FALSE(world.ranks[0].suits(scan));
  CollectiveCall blocks = all_reduce_of(x.data(), 2048);
  blocks.operation = Operation::all_gather_v;
  blocks.counts = Counts{0, 2048};
  EXPECT_TRUE(world.ranks[0].suits(blocks));
  blocks.count = 2047;
  EXPECT_FALSE(world.ranks[0].suits(blocks));
}

TEST(Segment, ASegmentHasRoomForEveryPart) {
  for (const int n : {1, 2, 33, 70}) {
    const engines::shm::Segment::Shape shape{.ranks = n, .slot_bytes = 4096, .ring_bytes = 4096};
    const std::size_t size = engines::shm::Segment::size_for(shape);
    const auto memory = engines::shm::private_memory(size);
    const engines::shm::Segment segment(shape, memory.get(), memory);
    for (int r = 0; r < n; ++r) EXPECT_EQ(&segment.notifier(r), &segment.member(r).notifier);
    auto parts = parts_of(segment);
    std::ranges::sort(parts);
    EXPECT_EQ(parts.front().first, memory.get());
    for (std::size_t i = 1; i < parts.size(); ++i) ASSERT_LE(parts[i - 1].first + parts[i - 1].second, parts[i].first) << n << " ranks, part " << i;
    EXPECT_EQ(parts.back().first + parts.back().second, memory.get() + size);
  }
}
