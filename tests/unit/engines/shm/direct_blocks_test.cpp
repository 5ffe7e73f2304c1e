// Blocks of different length that other ranks read where they lie.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engines/decision.h"
#include "two_engines.h"

using namespace unisono;
using two_engines::advance_both;
using two_engines::Elements;
using two_engines::n;
using two_engines::TwoEngines;

namespace {

using Lengths = std::vector<std::size_t>;
constexpr std::array both{true, true};
constexpr float untouched = -1.0F;

float element(int rank, std::size_t i) { return static_cast<float>(1'000'000 * rank) + static_cast<float>(i); }

/// A rank's part of a call, of which rank 0 is the root.
struct Part {
  Part(Operation operation, int rank, const Lengths& counts, const Lengths& recv_counts = {}) {
    call.operation = operation;
    call.counts = Counts(counts);
    call.recv_counts = Counts(recv_counts);
    const std::size_t total = call.counts.total(), own = counts[static_cast<std::size_t>(rank)];
    const bool is_root = rank == 0, gathers = operation == Operation::all_gather_v || operation == Operation::gather_v;
    if (operation != Operation::all_to_all_v) call.count = total;
    if (operation == Operation::gather_v || operation == Operation::scatter_v) call.root = 0;
    in.resize(gathers ? own : operation == Operation::scatter_v && !is_root ? 0 : total);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = element(rank, i);
    const std::size_t gathered = operation == Operation::gather_v && !is_root ? 0 : total;
    out.assign(operation == Operation::all_to_all_v ? call.recv_counts.total() : gathers ? gathered : own, untouched);
    call.in = TensorView(in.data(), DType::float32, in.size());
    call.out = TensorView(out.data(), DType::float32, out.size());
  }
  Elements in, out;
  CollectiveCall call;
};

/// Elements of a rank's input.
Elements range(int rank, std::size_t begin, std::size_t count) {
  Elements elements(count);
  for (std::size_t i = 0; i < count; ++i) elements[i] = element(rank, begin + i);
  return elements;
}
Elements operator+(Elements first, const Elements& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

struct BlockEngines : TwoEngines {
  using TwoEngines::TwoEngines;
  /// Carries out a call; returns how many steps it took, the same for both.
  std::uint32_t carry_out(const Part& a, const Part& b) {
    const std::uint32_t before = first.step();
    EXPECT_EQ(advance_both(*make_collective(first, a.call), *make_collective(second, b.call)), both);
    EXPECT_EQ(first.step(), second.step());
    return first.step() - before;
  }
};

/// The steps of a call whose elements are read where they lie, however many there are: one to announce, one to confirm.
constexpr std::uint32_t in_place = 2;

}  // namespace

void read_where_they_lie(BlockEngines&& world) {
  world.get_ready();
  for (const Lengths& counts : {Lengths{n, 3 * n}, Lengths{0, 2 * n}, Lengths{2 * n + 1, 0}, Lengths{2 * n, 1}}) {
    const std::size_t x = counts[0], y = counts[1];
    const auto parts = [&](Operation operation) { return std::pair(Part(operation, 0, counts), Part(operation, 1, counts)); };
    auto [a, b] = parts(Operation::all_gather_v);
    EXPECT_EQ(world.carry_out(a, b), in_place);
    EXPECT_EQ(a.out, range(0, 0, x) + range(1, 0, y));
    EXPECT_EQ(b.out, a.out);
    auto [c, d] = parts(Operation::gather_v);
    EXPECT_EQ(world.carry_out(c, d), in_place);
    EXPECT_EQ(c.out, a.out);
    auto [e, f] = parts(Operation::scatter_v);
    EXPECT_EQ(world.carry_out(e, f), in_place);
    EXPECT_EQ(e.out, range(0, 0, x));
    EXPECT_EQ(f.out, range(0, x, y));
    auto [g, h] = parts(Operation::reduce_scatter_v);
    EXPECT_EQ(world.carry_out(g, h), in_place);
    for (std::size_t i = 0; i < x; ++i) ASSERT_EQ(g.out[i], element(0, i) + element(1, i));
    for (std::size_t i = 0; i < y; ++i) ASSERT_EQ(h.out[i], element(0, x + i) + element(1, x + i));
  }
}

TEST(DirectBlocks, BlocksAreReadWhereTheyLie) { read_where_they_lie(BlockEngines()); }
TEST(DirectBlocks, BlocksAreReadAndWrittenPastTheCaches) { read_where_they_lie(BlockEngines(0)); }

TEST(DirectBlocks, BlocksAreReadInAllToAllVOfTheRanksThatGiveMuch) {
  BlockEngines world;
  world.get_ready();
  struct Traffic {
    Lengths first, second;
    std::uint32_t steps;
  };
  for (const auto& [first, second, steps] : {Traffic{{n, 3 * n}, {2 * n, 5}, in_place},  // both
                                             Traffic{{0, 3 * n}, {0, 0}, in_place},      // one, and the other nothing
                                             Traffic{{0, 3 * n}, {1000, 7}, in_place},   // the other so few that they go through its slot
                                             Traffic{{1000, 900}, {800, 700}, 1}}) {     // neither
    Part a(Operation::all_to_all_v, 0, first, {first[0], second[0]}), b(Operation::all_to_all_v, 1, second, {first[1], second[1]});
    EXPECT_EQ(world.carry_out(a, b), steps);
    EXPECT_EQ(a.out, range(0, 0, first[0]) + range(1, 0, second[0]));
    EXPECT_EQ(b.out, range(0, first[0], first[1]) + range(1, second[0], second[1]));
  }
}

// It reads the elements of the one in the first step, and those of the other in as many as its slots need.
TEST(DirectBlocks, BlocksLieInTheBufferOfOneRankAndInTheSlotsOfAnother) {
  BlockEngines world;
  world.get_ready();
  const std::size_t many = 20 * world.first.step_bytes() / sizeof(float);
  const Lengths first{3, 2 * n}, second{many, 0};
  Part a(Operation::all_to_all_v, 0, first, {3, many}), b(Operation::all_to_all_v, 1, second, {2 * n, 0});
  std::vector<float> elsewhere(b.in.begin(), b.in.end());
  b.call.in = TensorView(elsewhere.data(), DType::float32, elsewhere.size());
  const auto task_a = make_collective(world.first, a.call), task_b = make_collective(world.second, b.call);
  while (advance_both(*task_a, *task_b) != both) ASSERT_LT(world.first.step(), 10'000U);
  EXPECT_GT(world.first.step(), 10 * in_place);
  EXPECT_EQ(a.out, range(0, 0, 3) + range(1, 0, many));
  EXPECT_EQ(b.out, range(0, 3, 2 * n));
}

// A large part of one rank alone, which the other one does not know of: no conclusions are drawn from it.
TEST(DirectBlocks, BlocksOfOneRankAloneChangeNoExpectation) {
  BlockEngines world;
  world.get_ready();
  Part a(Operation::all_to_all_v, 0, {3 * n, 0}, {3 * n, 0}), b(Operation::all_to_all_v, 1, {0, 1}, {0, 1});
  EXPECT_EQ(world.carry_out(a, b), in_place);
  EXPECT_EQ(a.out, range(0, 0, 3 * n));
  EXPECT_EQ(b.out, range(1, 0, 1));
  const Part next(Operation::all_gather_v, 0, {n, n});
  EXPECT_TRUE(world.first.direct().begins(next.call));
  EXPECT_TRUE(world.second.direct().begins(next.call));
}

TEST(DirectBlocks, CountsOfBlocksAreComparedFirst) {
  BlockEngines world;
  world.get_ready();
  for (const Operation operation : {Operation::all_gather_v, Operation::gather_v, Operation::scatter_v, Operation::reduce_scatter_v}) {
    const Part a(operation, 0, {n, 3 * n}), b(operation, 1, {2 * n, 2 * n});
    const auto task_a = make_collective(world.first, a.call), task_b = make_collective(world.second, b.call);
    EXPECT_FALSE(task_a->advance());
    EXPECT_THROW(task_b->advance(), engines::Disagreement);
    EXPECT_THROW(task_a->advance(), engines::Disagreement);
    EXPECT_EQ(a.out, Elements(a.out.size(), untouched));
    EXPECT_EQ(b.out, Elements(b.out.size(), untouched));
  }
  const Part a(Operation::all_to_all_v, 0, {0, n}, {0, n}), b(Operation::all_to_all_v, 1, {n, 0}, {n - 1, 0});
  const auto task_a = make_collective(world.first, a.call), task_b = make_collective(world.second, b.call);
  EXPECT_FALSE(task_a->advance());
  EXPECT_THROW(task_b->advance(), engines::Disagreement);
  EXPECT_THROW(task_a->advance(), engines::Disagreement);
  EXPECT_EQ(b.out, Elements(n - 1, untouched));
  Part c(Operation::all_gather_v, 0, {n, n}), d(Operation::all_gather_v, 1, {n, n});
  EXPECT_EQ(world.carry_out(c, d), in_place) << "the next call is carried out as ever";
}

// A rank that gives up a call records that first, and may then use its buffer for something else.
TEST(DirectBlocks, BlocksAreNotTakenWhereTheirOwnerHasGivenUp) {
  for (const Operation operation : {Operation::all_to_all_v, Operation::all_gather_v}) {
    BlockEngines world;
    world.get_ready();
    const Part a(operation, 0, {n, n}, {n, n}), b(operation, 1, {n, n}, {n, n});
    const auto task_a = make_collective(world.first, a.call), task_b = make_collective(world.second, b.call);
    EXPECT_FALSE(task_a->advance());
    world.segment->failure().state = 2;
    const std::uint32_t before = world.second.step();
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(task_b->advance());
    EXPECT_EQ(world.second.step(), before + 1) << "the first step was the last one";
  }
}
