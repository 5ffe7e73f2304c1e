// Which way private buffers go is found out from the times of a program's own calls.
#include "engines/shm/copy_tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "two_engines.h"

using namespace unisono;
using engines::shm::CopyTuner;
using two_engines::call_of;
using two_engines::n;
using two_engines::TwoEngines;
using two_engines::TwoRanks;

namespace {

using Method = CopyTuner::Method;

/// A tuner, and the time that a call takes by each way.
struct Machine {
  CopyTuner::Ticks by_slots, by_reading;
  Method by_rule = Method::staged;
  CopyTuner tuner = CopyTuner();
  CopyTuner::Cell cell = CopyTuner::cell_of(Operation::all_gather, std::size_t{1} << 20).value();

  Method call() {
    const Method method = tuner.method(cell, by_rule);
    tuner.ended(cell, method, by_rule);
    tuner.measured(method == Method::read ? by_reading : by_slots);
    return method;
  }
  std::vector<Method> calls(int count) {
    std::vector<Method> methods;
    for (int i = 0; i < count; ++i) methods.push_back(call());
    return methods;
  }
  std::ptrdiff_t reads_of(int count) {
    const auto methods = calls(count);
    return std::ranges::count(methods, Method::read);
  }
};

}  // namespace

TEST(CopyTuner, TheTunerBeginsWithTheRuleAndThenTriesTheOtherWay) {
  for (const auto by_rule : {Method::staged, Method::read}) {
    Machine machine{.by_slots = 100, .by_reading = 100, .by_rule = by_rule};
    const auto other = by_rule == Method::read ? Method::staged : Method::read;
    EXPECT_EQ(machine.calls(8), (std::vector{by_rule, by_rule, by_rule, by_rule, other, other, other, by_rule}));
  }
}

TEST(CopyTuner, TheTunerKeepsTheWayThatIsClearlyFaster) {
  Machine faster{.by_slots = 100, .by_reading = 94}, slower{.by_slots = 100, .by_reading = 96},
      by_rule{.by_slots = 94, .by_reading = 100, .by_rule = Method::read};
  faster.calls(8);
  EXPECT_EQ(faster.reads_of(10), 10);
  slower.calls(8);
  EXPECT_EQ(slower.reads_of(10), 0);
  by_rule.calls(8);
  EXPECT_EQ(by_rule.reads_of(10), 0);
}

TEST(CopyTuner, TheTunerTriesLessAndLessOftenAndNeverStops) {
  Machine machine{.by_slots = 100, .by_reading = 200};
  machine.calls(4);
  for (const int pause : {16, 32, 64, 128, 256, 256, 256}) {
    EXPECT_EQ(machine.calls(3), std::vector(3, Method::read)) << "before a pause of " << pause;
    EXPECT_EQ(machine.reads_of(pause), 0) << pause;
  }
}

TEST(CopyTuner, TheTunerFollowsAMachineThatChanges) {
  Machine machine{.by_slots = 100, .by_reading = 50};
  machine.calls(100);
  EXPECT_EQ(machine.tuner.method(machine.cell, Method::staged), Method::read);
  machine.by_reading = 200;
  machine.calls(2 * CopyTuner::longest_pause);
  const auto staged_calls = 100 - machine.reads_of(100);
  EXPECT_GE(staged_calls, 90);
}

// The first call after a change finds the caches as the other way left them; a time that nobody knows, or of a call that went another way after all,
// tells nothing.
TEST(CopyTuner, TheTunerCountsOnlyTimesThatTellSomething) {
  CopyTuner tuner;
  const auto cell = CopyTuner::cell_of(Operation::broadcast, std::size_t{1} << 20).value();
  const auto trial = [&](std::array<std::optional<CopyTuner::Ticks>, 3> times, CopyTuner::Method taken) {
    while (tuner.method(cell, Method::staged) == Method::staged) {
      tuner.ended(cell, Method::staged, Method::staged);
      tuner.measured(100);
    }
    for (const auto& time : times) {
      tuner.ended(cell, taken, Method::staged);
      tuner.measured(time);
    }
    return tuner.method(cell, Method::staged);
  };
  EXPECT_EQ(trial({10, 200, 200}, Method::read), Method::staged);
  EXPECT_EQ(trial({10, std::nullopt, std::nullopt}, Method::read), Method::staged);
  EXPECT_EQ(trial({10, 10, 10}, Method::staged), Method::staged);
  EXPECT_EQ(trial({200, std::nullopt, 10}, Method::read), Method::read);
}

TEST(CopyTuner, TheTunerHasACellForEachKindAndSize) {
  const auto cell = [](Operation operation, std::size_t bytes) { return CopyTuner::cell_of(operation, bytes); };
  EXPECT_FALSE(cell(Operation::all_gather, CopyTuner::least_bytes - 1));
  for (const Operation operation : {Operation::all_to_all_v, Operation::scan, Operation::barrier, Operation::send})
    EXPECT_FALSE(cell(operation, std::size_t{1} << 20)) << static_cast<int>(operation);
  std::set<CopyTuner::Cell> cells;
  for (const Operation operation : {Operation::all_reduce, Operation::reduce, Operation::broadcast, Operation::all_gather, Operation::gather,
                                    Operation::scatter, Operation::reduce_scatter, Operation::all_to_all}) {
    for (std::size_t bytes = CopyTuner::least_bytes; bytes <= std::size_t{1} << 34; bytes *= 2) {
      EXPECT_EQ(cell(operation, bytes), cell(operation, 2 * bytes - 1));
      EXPECT_TRUE(cells.insert(cell(operation, bytes).value()).second);
    }
    EXPECT_TRUE(cell(operation, std::size_t{1} << 50));
  }
  EXPECT_EQ(cell(Operation::gather_v, 1 << 20), cell(Operation::gather, 1 << 20));
}

// Each rank announces when it began and when it ended; the ranks draw the same conclusions, whatever these times are.
TEST(CopyTuner, TheRanksOfAGroupTakeTheSameWay) {
  TwoRanks world;
  std::array ranks{engines::shm::DirectAccess(*world.segment, 0, false), engines::shm::DirectAccess(*world.segment, 1, false)};
  std::vector<float> x(n), y(2 * n);
  std::array calls{call_of(Operation::all_gather, x, y, n), call_of(Operation::broadcast, x, x, n), call_of(Operation::all_reduce, x, x, n)};
  std::mt19937 random(7);
  std::set<bool> methods;
  for (int i = 0; i < 2000; ++i) {
    const CollectiveCall& call = calls[random() % calls.size()];
    for (auto& rank : ranks) rank.begin(call);
    const bool reads = ranks[0].begins(call);
    ASSERT_EQ(ranks[1].begins(call), reads) << i;
    for (int r = 0; r < 2; ++r) {
      auto announcement = ranks[static_cast<std::size_t>(r)].announce(call);
      announcement.began = static_cast<std::uint32_t>(random());
      announcement.ended = announcement.began + static_cast<std::uint32_t>(random() % 1000);
      world.segment->line(r, two_engines::step).announce(announcement);
    }
    for (auto& rank : ranks) rank.note(two_engines::step);
    const bool agreed = ranks[0].agreed(two_engines::step, call);
    ASSERT_EQ(ranks[1].agreed(two_engines::step, call), agreed) << i;
    for (auto& rank : ranks) rank.end(call, reads && agreed ? Method::read : Method::staged);
    methods.insert(reads);
  }
  EXPECT_EQ(methods.size(), 2U);
}

// Where ranks share processors one may have done its part before another one begins; elsewhere a rank that comes late has kept the others waiting.
TEST(CopyTuner, TheTimeOfACallDependsOnWhetherRanksShareProcessors) {
  for (const bool is_crowded : {false, true}) {
    TwoRanks world;
    std::array ranks{engines::shm::DirectAccess(*world.segment, 0, is_crowded), engines::shm::DirectAccess(*world.segment, 1, is_crowded)};
    std::vector<float> x(n);
    const CollectiveCall call = call_of(Operation::all_reduce, x, x, n);
    bool has_read = false;
    int reads = 0;
    for (int i = 0; i < 200; ++i) {
      for (auto& rank : ranks) rank.begin(call);
      for (int r = 0; r < 2; ++r) {
        auto announcement = ranks[static_cast<std::size_t>(r)].announce(call);
        announcement.began = has_read && r == 1 ? 1900 : 1000;  // the second one was late where the last call was read
        announcement.ended = 2000;
        world.segment->line(r, two_engines::step).announce(announcement);
      }
      has_read = ranks[0].begins(call);
      for (auto& rank : ranks) rank.note(two_engines::step);
      for (auto& rank : ranks) rank.end(call, has_read ? Method::read : Method::staged);
      if (i >= 100 && has_read) ++reads;
    }
    if (is_crowded) EXPECT_LE(reads, 10);
    else EXPECT_GE(reads, 90);
  }
}

// In an all_to_all_v a rank decides for itself, whatever the others do, and its times say nothing about other calls.
TEST(CopyTuner, TheTunerOfAnAllToAllVIsTheRanksOwn) {
  TwoRanks world;
  std::array ranks{engines::shm::DirectAccess(*world.segment, 0, false), engines::shm::DirectAccess(*world.segment, 1, false)};
  std::vector<float> x(2 * n), y(2 * n);
  const CollectiveCall gather = call_of(Operation::all_gather, x, y, n / 2);
  for (int i = 0; i < 2; ++i) world.call(ranks, gather, gather);
  CollectiveCall exchange = call_of(Operation::all_to_all_v, x, y, 0);
  exchange.counts = exchange.recv_counts = Counts{n, n};
  std::set<bool> methods;
  for (int i = 0; i < 300; ++i) {
    ranks[0].begin(exchange);
    const bool reads = ranks[0].leaves_in_buffer(exchange);
    ranks[0].end(exchange, reads ? Method::read : Method::staged);
    methods.insert(reads);
    ASSERT_TRUE(ranks[0].begins(gather)) << i;
    ASSERT_TRUE(ranks[1].begins(gather)) << i;
  }
  EXPECT_EQ(methods.size(), 2U);
}

// A call that is read takes a second step, in which the ranks confirm that they have read.
TEST(CopyTuner, ResultsAreRightByBothWays) {
  TwoEngines world;
  std::set<std::uint32_t> steps;
  for (int i = 0; i < 60; ++i) {
    const std::uint32_t before = world.first.step();
    world.in[n - 1] = static_cast<float>(i);
    world.in2[0] = static_cast<float>(-i);
    ASSERT_EQ(world.gather_all(), (std::array{true, true}));
    steps.insert(world.first.step() - before);
    ASSERT_EQ(world.out, world.out2);
    ASSERT_EQ(world.out[n - 1], static_cast<float>(i));
    ASSERT_EQ(world.out[n], static_cast<float>(-i));
  }
  EXPECT_EQ(steps, (std::set<std::uint32_t>{1, 2}));
}
