// Every algorithm of the table, for every number of ranks up to 64, carried out on symbols without any connection.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "schedule/selection.h"
#include "machine.h"

namespace unisono::schedule::testing {
namespace {

#ifdef UNISONO_SHORT_SWEEP
constexpr int most_ranks_on_two_levels = 9;
#else
constexpr int most_ranks_on_two_levels = 64;
#endif

/// SCHEDULE_SWEEP=all (a test of the long ones): every root, more lengths, and all kinds of calls for every number of ranks.
bool sweeps_all() {
  static const bool all = std::getenv("SCHEDULE_SWEEP") != nullptr;
  return all;
}

/// Returns the roots that are worth a try.
std::vector<int> roots_of(Operation operation, int size) {
  if (!has_root(operation)) return {0};
  std::vector<int> roots;
  for (int r = 0; r < size; ++r) {
    if (sweeps_all() || size <= 8 || r == 0 || r == 1 || r == size / 2 || r == size - 1) roots.push_back(r);
  }
  return roots;
}

/// Returns numbers of elements: none, one, fewer than ranks, uneven, many.
std::vector<std::size_t> counts_of(Operation operation, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  const OperationTraits& traits = traits_of(operation);
  const bool is_whole = traits.in == Layout::whole && traits.out == Layout::whole;
  if (is_whole)
    return sweeps_all() ? std::vector<std::size_t>{0, 1, 2, ranks - 1, ranks, ranks + 1, 2 * ranks, 3 * ranks + 1}
                        : std::vector<std::size_t>{0, 1, ranks - 1, ranks + 1, 2 * ranks};
  return sweeps_all() ? std::vector<std::size_t>{0, 1, 2, 5} : std::vector<std::size_t>{0, 1, 2};
}

/// Checks a call, and where `kinds` is set the same with different blocks, shared buffers, as an average and with a callable. Returns how many.
int check_kinds(Case one, const Algorithm& algorithm, bool kinds, const NetworkParameters& network = {}) {
  int tried = 0;
  const auto expect_right = [&] {
    const auto topologies = one.topologies();
    if (::testing::Test::HasFatalFailure() ||
        !can(algorithm, one.problem(0), setting_of(one, topologies.empty() ? nullptr : topologies.data(), network)))
      return;
    ++tried;
    ASSERT_EQ(check(one, algorithm, network), "") << one.name();
  };
  expect_right();
  if (has_counts(one.operation)) {
    one.blocks = Blocks::uneven;
    expect_right();
  }
  if (!kinds) return tried;
  if (one.operation != Operation::all_to_all && one.operation != Operation::all_to_all_v) {
    one.buffers = Buffers::shared;
    expect_right();
  }
  if (reduces(one.operation)) {
    one.is_custom = true;
    expect_right();
    one.is_custom = false;
    one.op = ReduceOp::avg;
    if (!is_prefix(one.operation)) expect_right();
  }
  return tried;
}

class EveryAlgorithm : public ::testing::TestWithParam<std::size_t> {};

TEST_P(EveryAlgorithm, EveryAlgorithmGivesWhatTheOperationIs) {
  const Algorithm& algorithm = table()[GetParam()];
  int tried = 0;
  for (int size = 1; size <= 64 && !HasFatalFailure(); ++size) {
    for (const std::size_t count : counts_of(algorithm.operation, size)) {
      for (const int root : roots_of(algorithm.operation, size)) {
        tried += check_kinds({.operation = algorithm.operation, .size = size, .count = count, .root = root}, algorithm,
                             sweeps_all() || size <= 9 || size == 64);
      }
    }
  }
  EXPECT_EQ(tried > 0, algorithm.name != "all_to_all_v");  // which is for engines without channels
}

// On a network whose latency is short for its bytes, chains have a piece for each element; on the other one some elements each, not all as many, for
// which formulas are upper bounds. With the assumed parameters a chain of so few elements has a single piece.
TEST_P(EveryAlgorithm, EveryAlgorithmGivesTheSameInPieces) {
  const Algorithm& algorithm = table()[GetParam()];
  const NetworkParameters single{.network = {.latency_us = 0.01, .gap_us = 0.01, .ns_per_byte = 1000}};
  const NetworkParameters several{.network = {.latency_us = 10, .gap_us = 0.01, .ns_per_byte = 1000}};
  for (int size = 2; size <= 9 && !HasFatalFailure(); ++size) {
    const bool is_power = (size & (size - 1)) == 0;
    for (const int root : roots_of(algorithm.operation, size)) {
      for (const std::size_t count : {static_cast<std::size_t>(2 * size), std::size_t{21}}) {
        const Case one{.operation = algorithm.operation, .size = size, .count = count, .root = root};
        check_kinds(one, algorithm, true, single);
        if (!is_power) check_kinds(one, algorithm, true, several);
      }
    }
  }
}

// On an engine that has an all_to_all_v and nothing else.
TEST_P(EveryAlgorithm, EveryAlgorithmGivesTheSameWithoutChannels) {
  const Algorithm& algorithm = table()[GetParam()];
  int tried = 0;
  for (int size = 1; size <= 9; ++size) {
    for (const std::size_t count : counts_of(algorithm.operation, size)) {
      for (const int root : roots_of(algorithm.operation, size)) {
        tried += check_kinds({.operation = algorithm.operation, .size = size, .count = count, .root = root, .has_channels = false}, algorithm, true);
      }
    }
  }
  const bool needs_channels = algorithm.can == algorithms::can_send || algorithm.can == algorithms::can_exchange;
  EXPECT_EQ(tried > 0, !needs_channels);
}

/// The hosts of the ranks: of the same size, of different sizes, neighbours and not, one rank a host, and many.
std::vector<std::vector<int>> all_hosts() {
  std::vector<std::vector<int>> all{
      {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 0, 0, 1, 2}, {0, 1, 1, 0, 2, 0}, {0, 0, 1, 1, 1}, {0, 1, 1, 2, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 0}};
  for (const auto& [hosts, ranks] : {std::pair{4, 4}, {2, 8}, {8, 2}, {3, 5}, {8, 8}}) {
    std::vector<int> neighbours, in_turn;
    for (int r = 0; r < hosts * ranks; ++r) {
      neighbours.push_back(r / ranks);
      in_turn.push_back(r % hosts);
    }
    all.push_back(neighbours);
    if (hosts < 8) all.push_back(in_turn);
  }
  return all;
}

class EveryAlgorithmOnTwoLevels : public ::testing::TestWithParam<std::size_t> {};

TEST_P(EveryAlgorithmOnTwoLevels, EveryAlgorithmOnTwoLevelsGivesWhatTheOperationIs) {
  const Algorithm& algorithm = table()[GetParam()];
  int tried = 0;
  for (const std::vector<int>& hosts : all_hosts()) {
    const auto size = static_cast<int>(hosts.size());
    for (const std::size_t count : counts_of(algorithm.operation, size)) {
      for (const int root : roots_of(algorithm.operation, size)) {
        tried += check_kinds({.operation = algorithm.operation, .size = size, .count = count, .root = root, .hosts = hosts}, algorithm, true);
      }
    }
  }
  EXPECT_GT(tried, 0);
}

/// Returns the numbers of the hosts as a group has them: in the order of their first ranks.
std::vector<int> numbered(std::vector<int> hosts) {
  std::map<int, int> numbers;
  for (int& host : hosts) host = numbers.try_emplace(host, static_cast<int>(numbers.size())).first->second;
  return hosts;
}

/// Hosts of different sizes for any number of ranks: of 1, 2, 3 … neighbours; as even as the number allows, neighbours and in turn; and scattered.
std::vector<std::vector<int>> uneven_hosts(int size) {
  std::vector<std::vector<int>> all(4);
  const int some = std::max(2, static_cast<int>(std::sqrt(size))), many = std::max(2, size / 3);
  for (int r = 0, host = 0, room = 1; r < size; ++r, --room) {
    if (room == 0) room = ++host + 1;
    all[0].push_back(host);
    all[1].push_back(r * some / size);
    all[2].push_back(r % many);
    all[3].push_back((r * r + r / 2) % some);
  }
  for (std::vector<int>& hosts : all) hosts = numbered(std::move(hosts));
  return all;
}

// Two ranks have no two levels: they are on one host, or each is alone on its own.
TEST_P(EveryAlgorithmOnTwoLevels, EveryAlgorithmOnTwoLevelsGivesTheSameAmongAnyNumberOfRanks) {
  const Algorithm& algorithm = table()[GetParam()];
  for (int size = 3; size <= most_ranks_on_two_levels && !HasFatalFailure(); ++size) {
    const OperationTraits& traits = traits_of(algorithm.operation);
    const bool is_whole = traits.in == Layout::whole && traits.out == Layout::whole;
    int tried = 0;
    for (const std::vector<int>& hosts : uneven_hosts(size)) {
      for (const int root : has_root(algorithm.operation) ? std::vector{0, size / 2, size - 1} : std::vector{0}) {
        const std::size_t count = is_whole ? static_cast<std::size_t>(size) + 1 : 1;
        tried += check_kinds({.operation = algorithm.operation, .size = size, .count = count, .root = root, .hosts = hosts}, algorithm, false);
      }
    }
    EXPECT_GT(tried, 0) << size << " ranks";
  }
}

/// Returns the rows on two levels, or those on one that are made of steps.
std::vector<std::size_t> rows_of_schedules(bool on_two_levels) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < table().size(); ++i) {
    if (table()[i].cost != nullptr && table()[i].on_two_levels == on_two_levels) rows.push_back(i);
  }
  return rows;
}

std::string name_of_row(const ::testing::TestParamInfo<std::size_t>& row) {
  const Algorithm& algorithm = table()[row.param];
  return std::string(to_string(algorithm.operation)) + "_by_" + std::string(algorithm.name);
}

INSTANTIATE_TEST_SUITE_P(Schedules, EveryAlgorithm, ::testing::ValuesIn(rows_of_schedules(false)), name_of_row);
INSTANTIATE_TEST_SUITE_P(Schedules, EveryAlgorithmOnTwoLevels, ::testing::ValuesIn(rows_of_schedules(true)), name_of_row);

}  // namespace
}  // namespace unisono::schedule::testing
