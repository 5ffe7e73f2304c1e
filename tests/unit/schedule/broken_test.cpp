// The checker of schedules itself: schedules that are wrong in one thing, and what it says of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "schedule/selection.h"
#include "machine.h"

namespace unisono::schedule::testing {
namespace {

using Kind = Step::Kind;

const Algorithm& algorithm_of(Operation operation, std::string_view name) {
  const auto rows = rows_of(operation);
  const auto found = std::ranges::find(rows, name, &Algorithm::name);
  if (found == rows.end()) throw std::invalid_argument("no such algorithm");
  return *found;
}

/// Builds the schedules of an algorithm, changes them, and returns what the checker says.
std::string said_of(const Case& one, std::string_view name, const std::function<void(std::vector<Schedule>&)>& change) {
  const Algorithm& algorithm = algorithm_of(one.operation, name);
  std::vector<Schedule> schedules = schedules_of(one, algorithm);
  EXPECT_EQ(check(one, schedules, algorithm.order), "");
  change(schedules);
  return check(one, schedules, algorithm.order);
}

/// Returns the n-th step of a kind.
Step& step_of(Schedule& schedule, Kind kind, int n = 0) {
  for (Step& step : schedule.steps) {
    if (step.kind == kind && n-- == 0) return step;
  }
  throw std::out_of_range("no such step");
}

const Case ring{.operation = Operation::all_reduce, .size = 5, .count = 10};

TEST(BrokenSchedule, AScheduleThatSendsToTheWrongRankStandsStill) {
  EXPECT_EQ(said_of(ring, "ring", [](auto& all) { step_of(all[2], Kind::send).peer = 4; }), "rank 0, wave 4: waits for ever for 2 messages");
  EXPECT_EQ(said_of(ring, "ring", [](auto& all) { step_of(all[2], Kind::send).peer = 5; }),
            "rank 2, wave 0: has no rank 5 to send to or receive from");
}

// With buffers it would end: every rank sends, and receives only when the send is done.
TEST(BrokenSchedule, AScheduleThatNeedsBuffersStandsStill) {
  const auto later = [](std::vector<Schedule>& all) {
    for (Schedule& schedule : all) {
      for (Step& step : schedule.steps) {
        step.wave *= 2;
        if (step.kind == Kind::receive) ++step.wave;
      }
      std::ranges::stable_sort(schedule.steps, {}, &Step::wave);
    }
  };
  EXPECT_EQ(said_of(ring, "ring", later), "rank 0, wave 0: waits for ever for 1 messages");
}

TEST(BrokenSchedule, AScheduleThatTakesTheWrongSliceGivesTheWrongElements) {
  EXPECT_EQ(said_of(ring, "ring", [](auto& all) { step_of(all[1], Kind::send).in.begin = 4; }),
            "rank 0, element 0 of the output: it is made of other elements");
  EXPECT_EQ(said_of(ring, "ring", [](auto& all) { step_of(all[1], Kind::receive).out.count = 1; }),
            "rank 1, wave 0: receives 1 elements from rank 0, which sends 2");
  EXPECT_EQ(said_of(ring, "ring", [](auto& all) { step_of(all[1], Kind::send).in.begin = 9; }),
            "rank 1, wave 0: input[9, 11) goes beyond the 10 elements there");
  EXPECT_EQ(
      said_of({.operation = Operation::all_gather, .size = 4, .count = 3}, "ring", [](auto& all) { step_of(all[3], Kind::send, 1).in.begin = 9; }),
      "rank 0, element 6 of the output: it is not element 0 of rank 2");
}

TEST(BrokenSchedule, AScheduleThatCombinesInAnotherOrderIsNoticed) {
  const auto swap = [](auto& all) {
    Step& step = step_of(all[3], Kind::combine);
    std::swap(step.in, step.with);
  };
  EXPECT_EQ(said_of({.operation = Operation::reduce, .size = 4, .count = 3, .root = 3}, "chain", swap),
            "rank 3, element 0 of the output: it is not combined from left to right");
  EXPECT_EQ(said_of({.operation = Operation::reduce, .size = 4, .count = 3, .root = 3}, "binomial", swap),
            "rank 3, element 0 of the output: it is not combined in the order of the ranks");
}

TEST(BrokenSchedule, AScheduleThatGivesRanksOtherBitsIsNoticed) {
  const auto swap = [](auto& all) {
    Step& step = step_of(all[3], Kind::combine);
    std::swap(step.in, step.with);
  };
  const Case one{.operation = Operation::all_reduce, .size = 4, .count = 3};
  const Algorithm& algorithm = algorithm_of(one.operation, "recursive_doubling");
  std::vector<Schedule> schedules = schedules_of(one, algorithm);
  swap(schedules);
  EXPECT_EQ(check(one, schedules, Order::neighbours), "rank 1, element 0 of the output: it is not combined in the order of the ranks");
  EXPECT_EQ(check(one, schedules, Order::any), "rank 1, element 0 of the output: rank 0 has other bits");
}

TEST(BrokenSchedule, AScheduleThatAddsARankTwiceOrNotAtAllIsNoticed) {
  EXPECT_EQ(said_of(ring, "ring", [](auto& all) { step_of(all[1], Kind::combine).with = step_of(all[1], Kind::combine).in; }),
            "rank 0, element 8 of the output: it is not made of every rank's element once");
  EXPECT_EQ(said_of(ring, "shares", [](auto& all) { --step_of(all[1], Kind::reduce).blocks; }),
            "rank 0, element 2 of the output: it is not made of every rank's element once");
}

TEST(BrokenSchedule, AScheduleWhoseStepsOfAWaveNeedEachOtherIsNoticed) {
  EXPECT_EQ(said_of(ring, "ring", [](auto& all) { step_of(all[0], Kind::combine).wave = 0; }),
            "rank 0, wave 0: one step writes what another one of the same wave uses");
  EXPECT_EQ(said_of({.operation = Operation::reduce, .size = 2, .count = 4, .root = 0}, "binomial",
                    [](auto& all) {
                      step_of(all[0], Kind::combine).out = {Slice::Memory::scratch, 1, 4};
                    }),
            "rank 0, wave 1: a step writes to a part of what it reads");
  EXPECT_EQ(said_of(ring, "ring", [](auto& all) { step_of(all[0], Kind::combine).out.memory = Slice::Memory::input; }),
            "rank 0, wave 1: writes to the input");
}

TEST(BrokenSchedule, AScheduleThatReadsWhatNobodyHasWrittenIsNoticed) {
  EXPECT_EQ(said_of(ring, "ring", [](auto& all) { step_of(all[0], Kind::combine).in.begin = 64; }),
            "rank 0, wave 1: combines an element that nothing has been written to");
  EXPECT_EQ(said_of({.operation = Operation::broadcast, .size = 4, .count = 2}, "binomial",
                    [](auto& all) { step_of(all[2], Kind::receive).out.count = step_of(all[0], Kind::send).in.count = 1; }),
            "rank 2, wave 1: sends output[0, 2), which nothing has been written to");
}

TEST(BrokenSchedule, AnAverageIsDividedOnceAndByTheNumberOfRanks) {
  Case one = ring;
  one.op = ReduceOp::avg;
  EXPECT_EQ(said_of(one, "ring", [](auto& all) { step_of(all[0], Kind::divide).divisor = 4; }), "rank 0, wave 8: divides by 4");
  EXPECT_EQ(said_of(one, "ring", [](auto& all) { std::erase_if(all[0].steps, [](const Step& step) { return step.kind == Kind::divide; }); }),
            "rank 0, element 0 of the output: it has not been divided");
  EXPECT_EQ(said_of(one, "ring",
                    [](auto& all) {
                      const Step twice = step_of(all[0], Kind::divide);
                      const auto place = std::ranges::find(all[0].steps, Kind::divide, &Step::kind);
                      for (auto later = all[0].steps.insert(place, twice) + 1; later != all[0].steps.end(); ++later) ++later->wave;
                    }),
            "rank 0, wave 9: divides twice, or what nothing has been written to");
}

TEST(BrokenSchedule, AScheduleThatCombinesPartialSumsIsNoOneStep) {
  const Algorithm& algorithm = algorithm_of(Operation::reduce, "chain");
  const Case one{.operation = Operation::reduce, .size = 3, .count = 2, .root = 2};
  EXPECT_EQ(check(one, schedules_of(one, algorithm), Order::left_to_right), "");
  EXPECT_EQ(check(one, schedules_of(one, algorithm), Order::once), "something is combined twice");
}

Cost one_round_less(const Problem& problem, const Setting& setting) {
  Cost cost = algorithms::cost_all_reduce_ring(problem, setting);
  --cost.rounds;
  return cost;
}
Cost one_element_less(const Problem& problem, const Setting& setting) {
  Cost cost = algorithms::cost_all_reduce_ring(problem, setting);
  --cost.sent;
  return cost;
}
Cost one_element_more(const Problem& problem, const Setting& setting) {
  Cost cost = algorithms::cost_all_reduce_ring(problem, setting);
  ++cost.reduced;
  return cost;
}
Cost of_rank(const Problem& problem, const Setting& setting) {
  Cost cost = algorithms::cost_all_reduce_ring(problem, setting);
  cost.scratch += problem.rank;
  return cost;
}

TEST(BrokenFormula, ABrokenFormulaIsNoticed) {
  const Case one{.operation = Operation::all_reduce, .size = 4, .count = 8};
  Algorithm algorithm = algorithm_of(Operation::all_reduce, "ring");
  const auto said = [&](Cost (*cost)(const Problem&, const Setting&)) {
    algorithm.cost = cost;
    return check(one, algorithm);
  };
  EXPECT_EQ(said(one_round_less), "6 rounds, where the formula says 5");
  EXPECT_EQ(said(one_element_less), "12 elements sent, where the formula says 11");
  EXPECT_EQ(said(one_element_more), "6 elements combined, where the formula says 7");
  EXPECT_EQ(said(of_rank), "rank 1 has another cost than rank 0");
}

/// Every step of a schedule that is left out, and every message that goes to another rank, or is of the elements beside, is noticed.
TEST(BrokenSchedule, AWrongStepOfAnyAlgorithmIsNoticed) {
  int changed = 0;
  for (const Algorithm& algorithm : table()) {
    Case one{.operation = algorithm.operation, .size = 5, .count = 7, .root = has_root(algorithm.operation) ? 1 : 0, .hosts = {}};
    if (algorithm.on_two_levels) one.hosts = {0, 0, 1, 1, 1};
    const auto topologies = one.topologies();
    if (!can(algorithm, one.problem(0), setting_of(one, topologies.empty() ? nullptr : topologies.data(), {}))) continue;
    const std::vector<Schedule> right = schedules_of(one, algorithm);
    for (std::size_t r = 0; r < right.size(); ++r) {
      for (std::size_t i = 0; i < right[r].steps.size(); ++i) {
        const auto expect_noticed = [&](std::string_view what, const std::function<void(std::vector<Schedule>&)>& change) {
          std::vector<Schedule> wrong = right;
          change(wrong);
          EXPECT_NE(check(one, wrong, algorithm.order), "")
              << one.name() << " by " << algorithm.name << ", rank " << r << ", step " << i << ": " << what;
          ++changed;
        };
        const Step& step = right[r].steps[i];
        // The share of rank 0 in an exclusive prefix by shares has no meaning, and is moved with the others.
        if (one.operation == Operation::exscan && algorithm.name == "shares" && step.is_local()) continue;
        if (step.kind == Kind::copy && step.in.memory == step.out.memory && step.in.begin == step.out.begin) continue;  // copies nothing
        expect_noticed("left out", [&](auto& all) { all[r].steps.erase(all[r].steps.begin() + static_cast<std::ptrdiff_t>(i)); });
        if (step.is_local() || step.kind == Kind::engine) continue;
        const int ranks = step.level == Level::rail ? 2 : one.size;
        expect_noticed("another peer", [&](auto& all) { all[r].steps[i].peer = (step.peer + 1) % ranks; });
        const Slice& slice = step.kind == Kind::send ? step.in : step.out;
        if (slice.count == 0) continue;
        expect_noticed("one element less", [&](auto& all) { --(step.kind == Kind::send ? all[r].steps[i].in : all[r].steps[i].out).count; });
      }
    }
  }
  EXPECT_GT(changed, 2000);
}

}  // namespace
}  // namespace unisono::schedule::testing
