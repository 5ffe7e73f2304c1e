// Which schedule is chosen: by the order of its sums, by the model of the network, by hand.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/reduce.h"
#include "schedule/calibration.h"
#include "schedule/carried_call.h"
#include "schedule/selection.h"
#include "unisono/error.h"
#include "case.h"

namespace unisono::schedule::testing {
namespace {

const Setting connections{.engine = Abilities(nullptr)};

std::string_view chosen(const Problem& problem, const Setting& setting = connections) {
  Schedule schedule;
  Builder builder(schedule);
  return build(problem, setting, builder);
}

std::set<std::string_view> allowed(Problem problem, const Setting& setting = connections) {
  std::set<std::string_view> names;
  for (const Algorithm& row : rows_of(problem.operation)) {
    if (can(row, problem, setting)) names.insert(row.name);
  }
  return names;
}

using Names = std::set<std::string_view>;

// The schedule of a rank depends on nothing in which ranks differ: all of them take the same one.
TEST(Schedules, SchedulesAreChosenAlikeOnAllRanks) {
  for (const std::size_t count : {1U, 1000U, 1000000U}) {
    for (const OperationTraits& operation : operation_table) {
      if (operation.operation == Operation::barrier || is_message(operation.operation)) continue;
      for (const std::vector<int>& hosts : {std::vector<int>{}, {0, 0, 1, 1, 1}, {0, 1, 0, 1, 2}}) {
        Case one{.operation = operation.operation, .size = 5, .count = count, .root = 0, .hosts = hosts};
        if (has_counts(one.operation)) one.blocks = Blocks::uneven;
        const auto topologies = one.topologies();
        std::set<std::string_view> names;
        for (int r = 0; r < one.size; ++r) {
          Setting setting = connections;
          setting.topology = hosts.empty() ? nullptr : &topologies[static_cast<std::size_t>(r)];
          Problem problem = one.problem(r);
          problem.is_in_place = r == 0;  // what a single rank may do
          names.insert(chosen(problem, setting));
        }
        EXPECT_EQ(names.size(), 1U) << one.name();
      }
    }
  }
}

TEST(Schedules, SchedulesOfFewBytesTakeFewRoundsAndThoseOfManyMoveFewBytes) {
  const auto for_bytes = [](Operation operation, int size, std::size_t bytes) {
    return chosen(Case{.operation = operation, .size = size, .count = bytes / 4}.problem(0));
  };
  EXPECT_EQ(for_bytes(Operation::all_reduce, 64, 8), "recursive_doubling");
  EXPECT_EQ(for_bytes(Operation::all_reduce, 63, 8), "everything");  // gathered by dissemination, in fewer rounds
  EXPECT_EQ(for_bytes(Operation::all_reduce, 64, 16 << 10), "recursive_doubling");
  EXPECT_EQ(for_bytes(Operation::all_reduce, 64, 4 << 20), "halving_doubling");
  EXPECT_EQ(for_bytes(Operation::all_reduce, 65, 256 << 20), "ring");  // not a power of two
  EXPECT_EQ(for_bytes(Operation::broadcast, 64, 8), "binomial");
  EXPECT_EQ(for_bytes(Operation::broadcast, 8, 256 << 20), "chain");
  EXPECT_EQ(for_bytes(Operation::reduce, 64, 8), "binomial");
  EXPECT_EQ(for_bytes(Operation::all_gather, 63, 8), "bruck");
  EXPECT_EQ(for_bytes(Operation::all_to_all, 64, 8), "bruck");
  EXPECT_EQ(for_bytes(Operation::all_to_all, 64, 4 << 20), "pairwise");
  EXPECT_THROW(static_cast<void>(for_bytes(Operation::send, 2, 4)), Unsupported);
}

TEST(Schedules, SchedulesAreChosenByTheParametersOfTheNetwork) {
  const Problem problem = Case{.operation = Operation::all_gather, .size = 16, .count = 1000}.problem(0);
  Setting setting = connections;
  setting.network = {.network = {.latency_us = 1000}, .contention = 0, .copy_ns_per_byte = 0};
  EXPECT_EQ(chosen(problem, setting), "exchange");  // one round
  setting.network.network.gap_us = 1000;
  EXPECT_EQ(chosen(problem, setting), "bruck");  // 4 messages
  setting.network = {.network = {.latency_us = 0.01, .gap_us = 0.01, .ns_per_byte = 10}, .contention = 1, .copy_ns_per_byte = 10};
  EXPECT_EQ(chosen(problem, setting), "recursive_doubling");  // no copies, and one message at a time
}

// With processors of their own the ranks pass a broadcast on in pieces at the same time; ranks that share them save messages and bytes of all ranks.
TEST(Schedules, SchedulesOfRanksThatShareProcessorsMoveFewBytesInAll) {
  const Problem problem = Case{.operation = Operation::broadcast, .size = 8, .count = 1 << 18, .root = 0}.problem(0);
  Setting setting = connections;
  const std::string_view apart = chosen(problem, setting);
  EXPECT_TRUE(apart == "chain" || apart == "scatter_all_gather") << apart;
  setting.network.crowding = 4;
  const std::string_view crowded = chosen(problem, setting);
  EXPECT_TRUE(crowded == "exchange" || crowded == "binomial") << crowded;
}

// The probes: 9 answers, 5 times 8 messages at once, 3 large messages. The times are those of the model itself.
TEST(Schedules, ACalibrationFindsTheParametersOfTheModel) {
  const LevelParameters is{.latency_us = 16, .gap_us = 2, .ns_per_byte = 0.25};
  std::vector<double> us;
  for (int i = 0; i < 9; ++i) us.push_back(2 * is.latency_us * (i < 2 ? 50 : i == 5 ? 3 : 1));  // the first ones warm up, one is disturbed
  for (int i = 0; i < 5; ++i) us.push_back(2 * is.latency_us + 7 * is.gap_us * (i == 2 ? 9 : 1));
  for (int i = 0; i < 3; ++i) us.push_back(2 * is.latency_us + (128 << 10) * is.ns_per_byte / 1000 * (i == 1 ? 4 : 1));
  EXPECT_EQ(parameters_from(us), is);
  for (double& each : us) each *= 1.1;  // a little more is the same
  EXPECT_EQ(parameters_from(us), is);
  std::ranges::fill(us, 0);  // a clock that stands still
  const LevelParameters least = parameters_from(us);
  EXPECT_TRUE(least.latency_us > 0 && least.gap_us > 0 && least.ns_per_byte > 0);
}

// Where ranks share processors the figures of one run are half or double those of the next. What is slower by far is another network.
TEST(Schedules, ACalibrationOfSharedProcessorsHasOneResult) {
  const LevelParameters loopback = between_shared_processors(2);
  for (const double factor : {0.5, 1.0, 2.0}) {
    const LevelParameters measured{.latency_us = 12 * factor, .gap_us = 12 * factor, .ns_per_byte = 0.7 * factor};
    EXPECT_EQ(settled(measured, 2), loopback) << factor;
    EXPECT_EQ(settled(measured, 1), measured) << factor;
  }
  EXPECT_EQ(settled({.latency_us = 1000, .gap_us = 3, .ns_per_byte = 8}, 2), (LevelParameters{1000, loopback.gap_us, 8}));
}

/// Returns how the elements of an all_reduce or all_gather among single ranks of hosts travel with the comparison of the calls.
std::optional<coordination::Carried::Pattern> pattern_of(Operation operation, int ranks, std::size_t count, double crowding) {
  Case one{.operation = operation, .size = ranks, .count = count};
  for (int r = 0; r < ranks; ++r) one.hosts.push_back(r);
  const auto topologies = one.topologies();
  Setting setting = connections;
  setting.topology = topologies.data();
  setting.network.crowding = crowding;
  if (crowding > 1) setting.network.network = between_shared_processors(crowding);
  const Problem problem = one.problem(0);
  return pattern_with_agreement(call_without_memory(problem), problem, setting);
}

TEST(Schedules, SchedulesOfMiddlingCallsBeginWithTheComparisonOfTheCalls) {
  using Pattern = coordination::Carried::Pattern;
  EXPECT_EQ(pattern_of(Operation::all_reduce, 4, 100, 2), Pattern::to_all);
  EXPECT_EQ(pattern_of(Operation::all_reduce, 4, 64 << 8, 2), Pattern::blocks);     // a share of 16 KiB to each, and back
  EXPECT_EQ(pattern_of(Operation::all_reduce, 8, 1 << 18, 4), Pattern::blocks);     // 128 KiB to each
  EXPECT_EQ(pattern_of(Operation::all_reduce, 8, (1 << 18) + 8, 4), std::nullopt);  // more than a message takes
  EXPECT_EQ(pattern_of(Operation::all_gather, 8, 1 << 15, 4), Pattern::directly);
  EXPECT_EQ(pattern_of(Operation::all_to_all, 8, 1 << 15, 4), Pattern::blocks);
  EXPECT_EQ(pattern_of(Operation::all_gather, 8, (1 << 15) + 1, 4), std::nullopt);
}

TEST(Schedules, SchedulesOfMiddlingCallsWithARootBeginWithTheComparisonOfTheCalls) {
  using Pattern = coordination::Carried::Pattern;
  for (const int ranks : {2, 4}) {
    const std::size_t count = ranks == 2 ? 1 << 14 : 1 << 12;
    EXPECT_EQ(pattern_of(Operation::reduce, ranks, count, 1), Pattern::directly) << ranks;
    EXPECT_EQ(pattern_of(Operation::gather, ranks, count, 1), Pattern::directly) << ranks;
    EXPECT_EQ(pattern_of(Operation::scatter, ranks, count, 1), Pattern::blocks) << ranks;
    EXPECT_EQ(pattern_of(Operation::broadcast, ranks, count, 1), Pattern::to_all) << ranks << " ranks, of which all need the elements";
    for (const Operation each : {Operation::reduce, Operation::gather, Operation::scatter, Operation::broadcast})
      EXPECT_EQ(pattern_of(each, ranks, (1 << 15) + 1, 1), std::nullopt) << to_string(each) << ": more than a message takes";
  }
  EXPECT_EQ(pattern_of(Operation::broadcast, 2, 1 << 15, 1), Pattern::directly);
  EXPECT_EQ(pattern_of(Operation::reduce, 4, 1 << 15, 1), std::nullopt) << "all of it would arrive at one rank";
  EXPECT_EQ(pattern_of(Operation::scan, 2, 1 << 14, 1), std::nullopt);
}

TEST(Schedules, TheNetworkMayBeGiven) {
  EXPECT_FALSE(parse_network(""));
  EXPECT_EQ(parse_network("assumed"), NetworkParameters());
  EXPECT_EQ(parse_network("5,0.5,1e-2")->network, (LevelParameters{.latency_us = 5, .gap_us = 0.5, .ns_per_byte = 0.01}));
  EXPECT_EQ(parse_network("5,0.5,1,2")->crowding, 2);
  EXPECT_EQ(*parse_network(text_of(*parse_network("5,0.5,1,2.5"))), *parse_network("5,0.5,1,2.5"));
  for (const char* const wrong : {"5", "5,1", "5,1,", "5,1,2,0.5", "5,1,2,3,4", "5,1,2,", "5,1,2us", "-1,1,1", "nan,1,1", "fast", " 5,1,1"}) {
    EXPECT_THROW(static_cast<void>(parse_network(wrong)), InvalidArgument) << wrong;
  }
}

TEST(Schedules, SchedulesOnTwoLevelsAreChosenWhereTheNetworkIsShared) {
  const Case one{.operation = Operation::all_reduce, .size = 16, .count = 1 << 20, .hosts = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}};
  const auto topologies = one.topologies();
  Setting setting = connections;
  setting.topology = topologies.data();
  EXPECT_EQ(chosen(one.problem(0), setting), "two_levels");
  setting.network.host = {.latency_us = 1e6};  // shared memory that is of no use
  EXPECT_NE(chosen(one.problem(0), setting), "two_levels");
}

TEST(Schedules, SchedulesCombineHalvesAndAveragesOfIntegersOnce) {
  Problem problem = Case{.operation = Operation::all_reduce, .size = 4, .count = 1 << 20}.problem(0);
  const Names once{"everything", "shares"};
  problem.dtype = DType::bfloat16;
  EXPECT_EQ(allowed(problem), once);
  problem.size = 2;  // a single sum
  EXPECT_EQ(allowed(problem).size(), 6U);
  problem.op = ReduceOp::avg;  // which the division would round again
  EXPECT_EQ(allowed(problem), once);
  problem.dtype = DType::int32;
  EXPECT_EQ(allowed(problem), once);
  problem.op = ReduceOp::sum;
  EXPECT_EQ(allowed(problem).size(), 6U);
  problem.dtype = DType::float16;
  problem.size = 4;
  problem.is_custom = true;  // which has its own rounding
  EXPECT_TRUE(allowed(problem).contains("recursive_doubling"));
}

TEST(Schedules, SchedulesCombineByACallableInTheOrderOfTheRanks) {
  Case one{.operation = Operation::all_reduce, .size = 4, .count = 1 << 20, .is_custom = true, .hosts = {0, 0, 1, 1}};
  auto topologies = one.topologies();
  Setting setting = connections;
  setting.topology = topologies.data();
  EXPECT_EQ(allowed(one.problem(0), setting), (Names{"everything", "shares", "recursive_doubling", "halving_doubling", "two_levels"}));
  one.hosts = {0, 1, 0, 1};  // sums of hosts are not sums of neighbours
  topologies = one.topologies();
  setting.topology = topologies.data();
  EXPECT_EQ(allowed(one.problem(0), setting), (Names{"everything", "shares", "recursive_doubling", "halving_doubling"}));
}

TEST(Schedules, SchedulesOfDeterministicCallsCombineFromLeftToRight) {
  Case one{.operation = Operation::reduce, .size = 4, .count = 1 << 20, .root = 3, .hosts = {0, 0, 1, 1}};
  const auto topologies = one.topologies();
  Setting setting = connections;
  setting.topology = topologies.data();
  Problem problem = one.problem(0);
  problem.is_deterministic = true;
  EXPECT_EQ(allowed(problem, setting), (Names{"shares", "chain"}));
  problem.dtype = DType::int32;  // whose sums are exact in every order
  EXPECT_EQ(allowed(problem, setting), (Names{"shares", "chain", "binomial", "two_levels"}));
  problem.is_custom = true;
  EXPECT_EQ(allowed(problem, setting), (Names{"shares", "chain"}));
  for (const OperationTraits& operation : operation_table) {
    for (const Algorithm& row : rows_of(operation.operation)) {
      Problem of_floats = Case{.operation = operation.operation, .size = 5, .count = 10}.problem(0);
      of_floats.is_deterministic = true;
      const bool has_right_bits = row.order <= Order::left_to_right || !reduces(row.operation);
      EXPECT_EQ(is_allowed(row.order, of_floats, connections), has_right_bits) << to_string(row.operation) << " by " << row.name;
    }
  }
}

/// Compares a combination in one step with one in several, as the schedules make them, and the average with a division at the end.
template <class T, class Draw>
void expect_same_bits(DType dtype, Draw draw) {
  constexpr std::size_t ranks = 7, count = 1003;
  std::vector<std::vector<T>> inputs(ranks, std::vector<T>(count));
  for (auto& input : inputs) std::ranges::generate(input, draw);
  std::array<const void*, ranks> all{};
  std::ranges::transform(inputs, all.begin(), [](const auto& input) { return input.data(); });
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max, ReduceOp::avg}) {
    if (!kernels::supports(dtype, op)) continue;
    const ReduceOp partial = op == ReduceOp::avg ? ReduceOp::sum : op;
    std::vector<T> at_once(count), in_steps = inputs[0];
    kernels::reduce(at_once.data(), all.data(), ranks, count, dtype, op, ranks);
    for (std::size_t r = 1; r < ranks; ++r) {
      const void* const two[] = {in_steps.data(), inputs[r].data()};
      kernels::reduce(in_steps.data(), two, 2, count, dtype, partial, 1);
    }
    const void* const sum = in_steps.data();
    if (op == ReduceOp::avg) kernels::reduce(in_steps.data(), &sum, 1, count, dtype, op, ranks);
    EXPECT_EQ(std::memcmp(at_once.data(), in_steps.data(), count * sizeof(T)), 0) << to_string(dtype) << ", " << to_string(op);
  }
}

// What makes Order::left_to_right as good as Order::once for a deterministic call.
TEST(Schedules, SchedulesThatCombineFromLeftToRightInStepsGiveTheBitsOfASingleStep) {
  std::mt19937 random(15);
  std::uniform_real_distribution<double> number(-3, 3);
  expect_same_bits<float>(DType::float32, [&] { return static_cast<float>(number(random)); });
  expect_same_bits<double>(DType::float64, [&] { return number(random); });
  expect_same_bits<std::complex<float>>(DType::complex64,
                                        [&] { return std::complex<float>(static_cast<float>(number(random)), static_cast<float>(number(random))); });
  expect_same_bits<std::complex<double>>(DType::complex128, [&] { return std::complex<double>(number(random), number(random)); });
}

TEST(Schedules, AnOverrideNamesWhatThereIs) {
  EXPECT_NO_THROW(check_override(""));
  EXPECT_NO_THROW(check_override("all_reduce=shares,broadcast=exchange"));
  const auto refused = [](std::string_view text) {
    try {
      check_override(text);
    } catch (const InvalidArgument& error) {
      return error.message();
    }
    return std::string("nothing");
  };
  EXPECT_EQ(refused("all_reduce"), "UNISONO_SCHEDULE: \"all_reduce\" is not OPERATION=ALGORITHM");
  EXPECT_EQ(refused("all_reduces=shares"), "UNISONO_SCHEDULE: \"all_reduces=shares\" is not OPERATION=ALGORITHM");
  EXPECT_EQ(refused("scan=ring"), "UNISONO_SCHEDULE: scan has no algorithm \"ring\"; it has engine, two_levels, shares, recursive_doubling");
  EXPECT_EQ(refused("barrier=shares"), "UNISONO_SCHEDULE: barrier has no algorithm \"shares\"; it has none");
}

}  // namespace
}  // namespace unisono::schedule::testing
