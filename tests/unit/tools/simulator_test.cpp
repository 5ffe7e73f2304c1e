// The simulator against closed forms on a network without contention, and folded against unfolded for every row of the table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "schedule/selection.h"
#include "simulate/engine.h"
#include "unisono/error.h"

namespace unisono::simulate {
namespace {

/// Parameters with which times are easily written down: bandwidth is that of the links alone, and local work takes no time.
Parameters plain() {
  Parameters parameters;
  parameters.network = {.latency_us = 10, .overhead_us = 2, .gap_us = 2, .ns_per_byte = 1};
  parameters.link_gbit = 8;  // 1 ns for each byte
  parameters.hop_us = 0;
  parameters.reduce_ns_per_byte = 0;
  parameters.copy_ns_per_byte = 0;
  return parameters;
}

Call call_of(Operation operation, std::string_view algorithm, int ranks, std::size_t bytes) {
  Call call;
  call.operation = operation;
  call.algorithm = algorithm;
  call.ranks = ranks;
  call.bytes = bytes;
  call.has_agreement = false;
  return call;
}

double us_of(const Call& call, const SimulationOptions& options) { return simulate(call, options).us; }

TEST(Simulator, AMessageTakesOverheadLatencyAndItsBytes) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{4}, std::size_t{1000}, std::size_t{1} << 20}) {
    const Outcome outcome = simulate(call_of(Operation::broadcast, "binomial", 2, bytes), {.parameters = plain()});
    EXPECT_DOUBLE_EQ(outcome.us, 2 + 10 + 1e-3 * static_cast<double>(bytes) + 2) << bytes;
    EXPECT_EQ(outcome.messages, 1);
    EXPECT_EQ(outcome.rounds, 1);
  }
}

TEST(Simulator, ARingTakesTwoRoundsForEachFurtherRank) {
  for (const int ranks : {2, 3, 4, 7, 16, 61}) {
    const std::size_t block = 4000;
    const Outcome outcome = simulate(call_of(Operation::all_reduce, "ring", ranks, block * static_cast<std::size_t>(ranks)), {.parameters = plain()});
    const double rounds = 2 * (ranks - 1);
    EXPECT_NEAR(outcome.us, rounds * (2 + 10 + 4 + 2), 1e-6) << ranks;
    EXPECT_EQ(outcome.rounds, rounds);
    EXPECT_EQ(outcome.messages, rounds * ranks);
    EXPECT_DOUBLE_EQ(outcome.bytes, rounds * ranks * static_cast<double>(block));
  }
}

TEST(Simulator, RecursiveDoublingTakesTheLogarithm) {
  for (const int ranks : {2, 4, 8, 64, 256}) {
    const double rounds = std::log2(ranks);
    EXPECT_NEAR(us_of(call_of(Operation::all_reduce, "recursive_doubling", ranks, 8000), {.parameters = plain()}), rounds * (2 + 10 + 8 + 2), 1e-6);
    EXPECT_NEAR(us_of(call_of(Operation::all_reduce, "halving_doubling", ranks, 8192), {.parameters = plain()}),
                2 * rounds * (2 + 10 + 2) + 2 * 8.192 * (ranks - 1) / ranks, 1e-6);
  }
}

// A rank sends so many messages one after the other; the last one leaves after all overheads, and its receiver has taken the others by then.
TEST(Simulator, AnExchangeIsLimitedByTheOverheadOfItsMessages) {
  const int ranks = 33;
  const double others = ranks - 1;
  const double us = us_of(call_of(Operation::all_to_all, "exchange", ranks, 0), {.parameters = plain()});
  EXPECT_GE(us, others * 4);
  EXPECT_LE(us, others * 4 + 10 + 4);
}

TEST(Simulator, LocalWorkCounts) {
  Parameters parameters = plain();
  const Call call = call_of(Operation::all_reduce, "recursive_doubling", 4, 8000);
  const double without = us_of(call, {.parameters = parameters});
  parameters.reduce_ns_per_byte = 0.5;
  EXPECT_NEAR(us_of(call, {.parameters = parameters}), without + 2 * 8000 * 0.5e-3, 1e-6);
}

// Two hosts of two ranks: the whole exchange of a rail has the host's port for half of it alone.
TEST(Simulator, RanksOfAHostShareItsPort) {
  Call call = call_of(Operation::all_gather, "exchange", 4, 10000);
  call.ranks_per_host = 2;
  Parameters parameters = plain();
  parameters.network.overhead_us = parameters.network.gap_us = 0;
  parameters.host = {};
  const Outcome outcome = simulate(call, {.parameters = parameters});
  EXPECT_NEAR(outcome.us, 4 * 10 + 10, 1e-6);  // each of two ranks sends two blocks through the port
  EXPECT_EQ(outcome.links.front().most_bytes, 40000);
  EXPECT_NEAR(outcome.links.front().busy, 40.0 / 50, 1e-9);
}

TEST(Simulator, TheAgreementComesFirst) {
  Call call = call_of(Operation::all_reduce, "ring", 16, 4096 * 16);
  const double alone = us_of(call, {.parameters = plain()});
  call.has_agreement = true;
  const double with_it = us_of(call, {.parameters = plain()});
  // Two rounds of three messages: the fourth part of the hosts in each.
  const double round = 3 * 2 + 10 + 0.032 + 2;
  EXPECT_GT(with_it, alone + 2 * round - 1);
  EXPECT_LT(with_it, alone + 2 * (round + 3 * 2));
}

TEST(Simulator, SmallElementsTravelWithTheAgreement) {
  Call call = call_of(Operation::all_reduce, "", 16, 8);
  call.has_agreement = true;
  EXPECT_EQ(simulate(call, {}).algorithm, "agreement");
  call.bytes = 2048;  // 32 KiB together, directly
  EXPECT_EQ(simulate(call, {}).algorithm, "agreement");
  call.bytes = 128 << 10;  // 8 KiB to each of the others, and each gets as much of the sum
  EXPECT_EQ(simulate(call, {}).algorithm, "agreement");
  EXPECT_NEAR(simulate(call, {}).bytes, 2 * 15 * (128 << 10), 16 * 15 * 64);
  call.bytes = 4 << 20;
  EXPECT_NE(simulate(call, {}).algorithm, "agreement");
}

TEST(Simulator, TheSelectionIsTheLibrarys) {
  Call call = call_of(Operation::all_reduce, "", 16, 64 << 20);
  schedule::Problem problem;
  problem.operation = Operation::all_reduce;
  problem.dtype = DType::float32;
  problem.size = 16;
  problem.count = (64 << 20) / 4;
  EXPECT_EQ(simulate(call, {}).algorithm, schedule::select(problem, {.engine = schedule::Abilities(nullptr)}).name);
}

TEST(Simulator, AStragglerDelaysAll) {
  const Call call = call_of(Operation::all_reduce, "recursive_doubling", 16, 4096);
  const double without = us_of(call, {.parameters = plain()});
  const Outcome late = simulate(call, {.parameters = plain(), .stragglers = {{.rank = 5, .late_us = 700}}});
  EXPECT_NEAR(late.us, without + 700, 4 * (2 + 10 + 4.1 + 2));
  EXPECT_GT(late.us, 700 + without / 2);
  EXPECT_GT(late.first_us, 700);
  const double slow = us_of(call, {.parameters = plain(), .stragglers = {{.rank = 5, .slowness = 10}}});
  EXPECT_DOUBLE_EQ(slow, 4 * 10 * (2 + 2));  // its messages come while it is still sending its own
}

TEST(Simulator, RanksOfAMachineTakeTurns) {
  Parameters parameters = plain();
  parameters.network.latency_us = 0;
  const Call call = call_of(Operation::all_gather, "exchange", 8, 0);
  const double alone = us_of(call, {.parameters = parameters});
  parameters.cores = 2;
  parameters.hosts_per_machine = 8;
  const double shared = us_of(call, {.parameters = parameters});
  const double work = 8 * 7 * (2 + 2);  // of all ranks
  EXPECT_GE(shared, work / 2);
  EXPECT_LE(shared, work / 2 + 8);
  EXPECT_LT(alone, shared / 2);
  parameters.switch_us = 3;
  EXPECT_GT(us_of(call, {.parameters = parameters}), shared + 3);
}

TEST(Simulator, ACallOfRanksThatTakeTurnsLastsFromTheLastOnesBegin) {
  Parameters parameters = plain();
  parameters.network.latency_us = 0;
  parameters.switch_us = 0;
  parameters.cores = 1;
  parameters.hosts_per_machine = 4;
  Call call = call_of(Operation::all_gather, "exchange", 4, 0);
  call.calls = 2;
  call.are_apart = true;
  const double sends = 3 * 2, receives = 3 * 2;
  EXPECT_DOUBLE_EQ(us_of(call, {.parameters = parameters}), sends + 4 * receives);  // each sends all of its messages before it gives way
}

// What the library chooses between shaped namespaces on two processors: the figures of the loopback interface, not those of the network.
TEST(Simulator, RanksThatShareProcessorsChooseByFixedFigures) {
  Call call = call_of(Operation::reduce, {}, 16, 256 << 10);
  Parameters parameters = plain();
  EXPECT_EQ(simulate(call, {.parameters = parameters}).algorithm, "shares");
  parameters.cores = 2;
  parameters.hosts_per_machine = 16;
  EXPECT_EQ(simulate(call, {.parameters = parameters}).algorithm, "binomial");
}

TEST(Simulator, TheSimulatorRefusesWhatItCannotDo) {
  const auto refused = [](const Call& call, const SimulationOptions& options = {}) { return [call, options] { simulate(call, options); }; };
  EXPECT_THROW(refused(call_of(Operation::all_reduce, "bubble", 4, 8))(), InvalidArgument);
  EXPECT_THROW(refused(call_of(Operation::all_reduce, "engine", 4, 8))(), InvalidArgument);
  EXPECT_THROW(refused(call_of(Operation::all_reduce, "two_levels", 4, 8))(), InvalidArgument);  // one rank on each host
  EXPECT_THROW(refused(call_of(Operation::all_gather, "exchange", 4, 8), {.stragglers = {{.rank = 4}}})(), InvalidArgument);
  EXPECT_THROW(refused(call_of(Operation::broadcast, "exchange", 100, 8), {.network = {.topology = Topology::fat_tree, .ports = 4}})(),
               InvalidArgument);
}

// The short run of the sanitizers has the smallest job of each kind: one rank on a host, and several; more messages than are followed one by one.
#if defined(UNISONO_SHORT_SWEEP)
constexpr std::pair<int, int> jobs[] = {{8, 1}, {16, 2}};
constexpr int many_ranks = 72;
#else
constexpr std::pair<int, int> jobs[] = {{8, 1}, {16, 1}, {16, 2}, {48, 4}, {63, 1}};
constexpr int many_ranks = 200;
#endif

// With so many messages those on the same way are one flow in a folded simulation.
TEST(Simulator, ManyMessagesTogetherAreAsManyAlone) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{64}, std::size_t{4096}, std::size_t{1} << 18}) {
    for (const int per_host : {1, 4}) {
      Call call = call_of(Operation::all_to_all, "exchange", many_ranks, bytes);
      call.ranks_per_host = per_host;
      const Outcome folded = simulate(call, {});
      const Outcome whole = simulate(call, {.folding = Folding::never});
      EXPECT_EQ(folded.computed, per_host);
      EXPECT_NEAR(folded.us, whole.us, 0.05 * whole.us) << bytes << " from " << per_host;
      EXPECT_NEAR(folded.links[0].most_bytes, whole.links[0].most_bytes, 1e-6 * whole.links[0].most_bytes + 1e-6);
    }
  }
}

TEST(Simulator, ProgressIsThePartOfTheMessagesThatHaveArrived) {
  Call call = call_of(Operation::all_to_all, "exchange", many_ranks, 1 << 18);
  call.calls = 3;
  std::vector<double> parts;
  const Outcome outcome = simulate(call, {.folding = Folding::never, .progress = [&](double part) { parts.push_back(part); }});
  constexpr double messages_between = 1 << 12;
  EXPECT_GE(static_cast<double>(parts.size()), outcome.messages * call.calls / messages_between / 2);
  ASSERT_FALSE(parts.empty());
  EXPECT_TRUE(std::ranges::is_sorted(parts));
  EXPECT_GT(parts.front(), 0);
  EXPECT_LT(parts.front(), 0.5);
  EXPECT_LE(parts.back(), 1);
  EXPECT_GT(parts.back(), 0.5);
}

class EveryRow : public ::testing::TestWithParam<std::size_t> {};

/// The folded and the unfolded simulation, on all topologies, of one rank and of several on a host.
TEST_P(EveryRow, FoldedIsAsUnfolded) {
  const schedule::Algorithm& row = schedule::table()[GetParam()];
  int folded = 0, tried = 0;
  for (const Topology topology : {Topology::flat, Topology::fat_tree, Topology::dragonfly_plus, Topology::rail_optimised}) {
    for (const auto& [ranks, per_host] : jobs) {
      Call call = call_of(row.operation, row.name, ranks, 192 * 1024);
      call.ranks_per_host = per_host;
      SimulationOptions options{.network = {.topology = topology, .ports = 4, .oversubscription = topology == Topology::flat ? 1.0 : 3.0}};
      if (topology == Topology::rail_optimised) options.network.nics = per_host;
      if (topology == Topology::dragonfly_plus) options.network.oversubscription = 1;
      if (call.hosts() > Network::most_hosts(options.network)) continue;
      if (row.on_two_levels && per_host == 1) continue;
      ++tried;
      const Outcome automatic = simulate(call, options);
      options.folding = Folding::never;
      const Outcome whole = simulate(call, options);
      ASSERT_TRUE(whole.cut_off.empty());
      folded += automatic.computed < ranks ? 1 : 0;
      EXPECT_NEAR(automatic.us, whole.us, 1e-6 * whole.us) << ranks << " on " << topology_names[static_cast<std::size_t>(topology)];
      EXPECT_EQ(automatic.messages, whole.messages);
      EXPECT_NEAR(automatic.bytes, whole.bytes, 1e-6 * whole.bytes);
      for (std::size_t l = 0; l < whole.links.size(); ++l) {
        EXPECT_NEAR(automatic.links[l].most_bytes, whole.links[l].most_bytes, 1e-6 * whole.links[l].most_bytes + 1e-6) << whole.links[l].name;
        EXPECT_NEAR(automatic.links[l].all_bytes, whole.links[l].all_bytes, 1e-6 * whole.links[l].all_bytes + 1e-6) << whole.links[l].name;
      }
    }
  }
  EXPECT_GT(tried, 0);
  const bool is_symmetric = !has_root(row.operation) && (row.name == "ring" || row.name == "pairwise" || row.name == "exchange");
  EXPECT_TRUE(folded > 0 || !is_symmetric);
}

std::vector<std::size_t> rows_of_schedules() {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < schedule::table().size(); ++i) {
    if (schedule::table()[i].cost != nullptr && schedule::table()[i].name != "all_to_all_v") rows.push_back(i);
  }
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Simulator, EveryRow, ::testing::ValuesIn(rows_of_schedules()), [](const auto& row) {
  const schedule::Algorithm& algorithm = schedule::table()[row.param];
  return std::string(to_string(algorithm.operation)) + "_by_" + std::string(algorithm.name);
});

}  // namespace
}  // namespace unisono::simulate
