// Where the elements of calls lie in the slots of a segment.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <numeric>
#include <vector>

#include "engines/shm/engine.h"
#include "two_engines.h"

using namespace unisono;
using engines::shm::Lockstep;
using engines::shm::make_collective;
using engines::shm::Segment;
using two_engines::advance_both;
using two_engines::call_of;
using two_engines::TwoEngines;

namespace {

/// The place in the segment at which rank 0 has put the first elements of a call of two ranks.
std::size_t place_of(Operation operation, TwoEngines& world, std::size_t count) {
  std::vector<float> in(2 * count, 7.5F), in2(2 * count, 8.5F), out(2 * count), out2(2 * count);
  const std::byte* const begin = world.memory.get();
  const std::size_t size = Segment::size_for({.ranks = 2});
  std::vector<std::byte> before(begin, begin + size);
  const auto a = make_collective(world.first, call_of(operation, in, out, count));
  static_cast<void>(a->advance());
  const std::size_t slots =
      world.segment->inbox(0, 0) < world.segment->inbox(1, 0) ? world.segment->inbox(0, 0) - begin : world.segment->inbox(1, 0) - begin;
  std::size_t place = slots;
  while (place < size && before[place] == begin[place]) ++place;
  const auto b = make_collective(world.second, call_of(operation, in2, out2, count));
  while (advance_both(*a, *b) != std::array{true, true}) {
  }
  std::fill_n(world.memory.get() + slots, size - slots, std::byte{});
  return place - slots;
}

// A rank writes over what it has read itself two steps before, and so finds the lines in its own caches.
TEST(Slots, TwoRanksExchangeTheirSlots) {
  TwoEngines world;
  const std::size_t slot = world.segment->slot_bytes();
  std::vector<std::size_t> places;
  for (int i = 0; i < 8; ++i) places.push_back(place_of(Operation::all_gather, world, 8192) / slot);
  for (std::size_t i = 4; i < 8; ++i) EXPECT_EQ(places[i], places[i - 4]);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NE(places[i], places[i + 2]);
    EXPECT_EQ(places[i] / 4, 1 - places[i + 2] / 4) << "four slots of each rank: it is the other one's";
  }
}

// Each step of a large call whose data goes one way lies somewhere else, so that the slots together exceed the caches.
TEST(Slots, LargeDataGoesRoundInTheSlots) {
  TwoEngines world;
  std::vector<std::size_t> places;
  for (int i = 0; i < 32; ++i) places.push_back(place_of(Operation::broadcast, world, 8192));
  auto different = places;
  std::ranges::sort(different);
  EXPECT_EQ(std::ranges::unique(different).begin(), different.end());
  for (int i = 0; i < 8; ++i) places[static_cast<std::size_t>(i)] = place_of(Operation::broadcast, world, 256);
  EXPECT_EQ(places[0], places[4]) << "small data stays where it is";
}

/// Ranks of one segment with a processor each, driven by this thread.
struct Ranks {
  explicit Ranks(int n) : size(static_cast<std::size_t>(n)), segment(segment_of(n)) {
    for (int r = 0; r < n; ++r) engines.push_back(std::make_unique<Lockstep>(segment, r, false));
  }
  static std::shared_ptr<Segment> segment_of(int n) {
    const Segment::Shape shape{.ranks = n};
    auto memory = engines::shm::private_memory(Segment::size_for(shape));
    return std::make_shared<Segment>(shape, memory.get(), memory);
  }
  /// Carries out a call on `count` elements of each rank, or for each other rank; returns the outputs. Element i of rank r is `first + 1000 r + i`.
  std::vector<std::vector<float>> carry_out(Operation operation, std::size_t count, float first) {
    const bool in_blocks = operation == Operation::all_to_all || operation == Operation::reduce_scatter || operation == Operation::scatter;
    std::vector<std::vector<float>> in(size), out(size);
    std::vector<CollectiveCall> calls;
    for (std::size_t r = 0; r < size; ++r) {
      in[r].resize(in_blocks ? size * count : count);
      std::iota(in[r].begin(), in[r].end(), first + 1000 * static_cast<float>(r));
      out[r] = std::vector<float>(size * count, -1.0F);
      calls.push_back(call_of(operation, in[r], out[r], count));
      if (has_root(operation)) calls.back().root = 0;
    }
    std::vector<std::unique_ptr<Task>> tasks;
    for (std::size_t r = 0; r < size; ++r) tasks.push_back(make_collective(*engines[r], calls[r]));
    for (std::size_t done = 0; done < size;) {
      done = 0;
      for (const auto& task : tasks) done += task->advance() ? 1 : 0;
    }
    return out;
  }

  std::size_t size;
  std::shared_ptr<Segment> segment;
  std::vector<std::unique_ptr<Lockstep>> engines;
};

// Calls of all kinds use the same slots one after the other: exchanged, going round, and small.
TEST(Slots, CallsOfDifferentKindsAndSizesFollowEachOther) {
  for (const int n : {2, 3, 4, 7}) {
    Ranks ranks(n);
    const std::size_t last = ranks.size - 1;
    float first = 1;
    for (const std::size_t count : {10UL, 3000UL, 5000UL, 20'000UL, 100'000UL, 4096UL, 100UL}) {
      for (int turn = 0; turn < 5; ++turn, ++first) {
        const auto of = [&](std::size_t rank, std::size_t i) { return first + 1000 * static_cast<float>(rank) + static_cast<float>(i); };
        const auto gathered = ranks.carry_out(Operation::all_gather, count, first);
        for (const auto& out : gathered) {
          for (std::size_t r = 0; r < ranks.size; ++r) ASSERT_EQ(out[r * count + count - 1], of(r, count - 1)) << n << " ranks, " << count;
        }
        const auto sent = ranks.carry_out(Operation::broadcast, count, first);
        ASSERT_EQ(sent[last][count / 2], of(0, count / 2)) << n << " ranks, " << count;
        const auto exchanged = ranks.carry_out(Operation::all_to_all, count, first);
        for (std::size_t r = 0; r < ranks.size; ++r) ASSERT_EQ(exchanged[last][r * count], of(r, last * count)) << n << " ranks, " << count;
        const auto scattered = ranks.carry_out(Operation::scatter, count, first);
        ASSERT_EQ(scattered[last][count - 1], of(0, last * count + count - 1)) << n << " ranks, " << count;
        const auto at_root = ranks.carry_out(Operation::gather, count, first);
        ASSERT_EQ(at_root[0][last * count + count - 1], of(last, count - 1)) << n << " ranks, " << count;
        const auto summed = ranks.carry_out(Operation::all_reduce, count, first);
        float sum = 0;
        for (std::size_t r = 0; r < ranks.size; ++r) sum += of(r, count - 1);
        for (const auto& out : summed) ASSERT_EQ(out[count - 1], sum) << n << " ranks, " << count;
      }
    }
  }
}

}  // namespace
