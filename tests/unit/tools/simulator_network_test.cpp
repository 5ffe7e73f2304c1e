// The topologies: their sizes, their ways, and how their links are shared.
#include <gtest/gtest.h>

#include "simulate/engine.h"
#include "simulate/network.h"
#include "unisono/error.h"

namespace unisono::simulate {
namespace {

Parameters bandwidth_alone() {
  Parameters parameters;
  parameters.network = {.ns_per_byte = 1};
  parameters.link_gbit = 8;
  parameters.hop_us = parameters.reduce_ns_per_byte = parameters.copy_ns_per_byte = 0;
  return parameters;
}

Call pairs(int ranks, std::size_t bytes) {
  Call call;
  call.operation = Operation::all_reduce;
  call.algorithm = "recursive_doubling";
  call.ranks = ranks;
  call.bytes = bytes;
  call.has_agreement = false;
  return call;
}

// Leaf switches of 4 hosts each: in the last of three rounds all hosts of a leaf exchange with those of the other one.
TEST(SimulatorNetwork, AnOversubscribedLeafDividesItsBandwidth) {
  for (const double oversubscription : {1.0, 2.0, 4.0}) {
    SimulationOptions options{.network = {.topology = Topology::fat_tree, .oversubscription = oversubscription}, .parameters = bandwidth_alone()};
    options.network.ports = static_cast<int>(4 * (1 + oversubscription) / oversubscription);
    ASSERT_EQ(Network::hosts_of_leaf(options.network), 4);
    const Outcome outcome = simulate(pairs(8, 1 << 20), options);
    const double one = (1 << 20) * 1e-3;
    EXPECT_NEAR(outcome.us, (2 + oversubscription) * one, 1e-6 * one) << oversubscription;
    ASSERT_EQ(outcome.links.size(), 4U);
    EXPECT_EQ(outcome.links[0].most_bytes, 3 * (1 << 20));
    EXPECT_EQ(outcome.links[2].most_bytes, 4 * (1 << 20));
    EXPECT_EQ(outcome.links[2].all_bytes, 8 * (1 << 20));
    EXPECT_NEAR(outcome.links[2].busy, oversubscription / (2 + oversubscription), 1e-9);
  }
}

TEST(SimulatorNetwork, BytesOfAllLinksOfAHostAreThoseOfAllMessages) {
  for (const Topology topology : {Topology::flat, Topology::fat_tree, Topology::dragonfly_plus, Topology::rail_optimised}) {
    Call call = pairs(32, 1 << 16);
    call.operation = Operation::all_to_all;
    call.algorithm = "pairwise";
    const Outcome outcome = simulate(call, {.network = {.topology = topology, .ports = 8}, .folding = Folding::never});
    EXPECT_DOUBLE_EQ(outcome.links[0].all_bytes, outcome.bytes);
    EXPECT_DOUBLE_EQ(outcome.links[1].all_bytes, outcome.bytes);
    EXPECT_DOUBLE_EQ(outcome.bytes, 32.0 * 31 * (1 << 16));
    if (topology == Topology::flat) continue;
    EXPECT_DOUBLE_EQ(outcome.links[2].all_bytes, outcome.links[3].all_bytes);
  }
}

TEST(SimulatorNetwork, AFlowThatIsSlowElsewhereKeepsItsShare) {
  const NetworkOptions options{.hosts = 3};
  const Network network(options, bandwidth_alone(), false);
  Flows flows(network);
  std::uint64_t tag = 0;
  flows.start(0, network.path(0, 0, 1, 0), 1000, 1, 1e9, 1);
  flows.start(0, network.path(0, 0, 2, 0), 1000, 1, 1e9, 2);
  flows.settle(0);
  EXPECT_DOUBLE_EQ(flows.next(), 2);  // both leave through the port of host 0, at half its speed
  EXPECT_TRUE(flows.end_next(2, tag));
  EXPECT_TRUE(flows.end_next(2, tag));
  flows.start(2, network.path(0, 0, 1, 0), 1000, 1, 1e9, 3);
  flows.settle(2);
  flows.start(2.5, network.path(2, 0, 1, 0), 1000, 1, 1e9, 4);
  flows.settle(2.5);
  EXPECT_FALSE(flows.end_next(3, tag));  // it was alone for half of its bytes, and has half of the port for the others
  EXPECT_DOUBLE_EQ(flows.next(), 3.5);
  EXPECT_TRUE(flows.end_next(3.5, tag));
  EXPECT_EQ(tag, 3U);
  flows.settle(3.5);
  EXPECT_DOUBLE_EQ(flows.next(), 4);
}

TEST(SimulatorNetwork, WaysHaveTheLinksOfTheirTopology) {
  const auto count = [](const NetworkOptions& options, int from, int from_nic, int to, int to_nic) {
    const Path path = Network(options, {}, false).path(from, from_nic, to, to_nic);
    return std::pair(path.count, path.switches);
  };
  const NetworkOptions fat{.topology = Topology::fat_tree, .hosts = 16, .ports = 8};
  EXPECT_EQ(count(fat, 0, 0, 3, 0), std::pair(2, 1));
  EXPECT_EQ(count(fat, 0, 0, 4, 0), std::pair(4, 3));
  const NetworkOptions large{.topology = Topology::fat_tree, .hosts = 128, .ports = 8};
  EXPECT_EQ(count(large, 0, 0, 127, 0), std::pair(4, 5));
  const NetworkOptions dragonfly{.topology = Topology::dragonfly_plus, .hosts = 64, .ports = 8};
  EXPECT_EQ(count(dragonfly, 0, 0, 3, 0), std::pair(2, 1));
  EXPECT_EQ(count(dragonfly, 0, 0, 4, 0), std::pair(4, 3));
  EXPECT_EQ(count(dragonfly, 0, 0, 16, 0), std::pair(5, 4));
  const NetworkOptions rails{.topology = Topology::rail_optimised, .hosts = 8, .ports = 8, .nics = 2};
  EXPECT_EQ(count(rails, 0, 0, 3, 0), std::pair(2, 1));
  EXPECT_EQ(count(rails, 0, 0, 3, 1), std::pair(4, 3));
  EXPECT_EQ(count(rails, 0, 1, 4, 1), std::pair(4, 3));
}

TEST(SimulatorNetwork, TopologiesHaveSizes) {
  EXPECT_EQ(Network::most_hosts({.topology = Topology::fat_tree, .ports = 64}), 65536);
  EXPECT_EQ(Network::most_hosts({.topology = Topology::dragonfly_plus, .ports = 8}), 16 * 17);
  EXPECT_EQ(Network::most_hosts({.topology = Topology::rail_optimised, .ports = 64, .nics = 8}), 8192);
  NetworkOptions options{.topology = Topology::fat_tree, .hosts = 17, .ports = 4};
  try {
    const Network refused(options, {}, false);
    FAIL() << "17 hosts were connected by switches of 4 ports";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(error.message().find("at most 16 hosts"), std::string::npos) << error.message();
  }
  options.hosts = 16;
  EXPECT_EQ(Network(options, {}, false).levels().size(), 4U);
}

TEST(SimulatorNetwork, GroupsOfADragonflyShareTheirLinks) {
  // Two groups of four hosts: four links between them. Ranks exchange with the other group in the last round, four at once.
  const SimulationOptions options{.network = {.topology = Topology::dragonfly_plus, .ports = 4}, .parameters = bandwidth_alone()};
  const Outcome outcome = simulate(pairs(8, 1 << 20), options);
  const double one = (1 << 20) * 1e-3;
  EXPECT_NEAR(outcome.us, 3 * one, 1e-6 * one);
  ASSERT_EQ(outcome.links.size(), 5U);
  EXPECT_EQ(outcome.links[4].most_bytes, 4 * (1 << 20));
}

TEST(SimulatorNetwork, ADeadLinkCutsAHostOffOrSlowsItDown) {
  SimulationOptions options{.network = {.topology = Topology::flat}, .parameters = bandwidth_alone()};
  options.network.dead = DeadLink{.where = DeadLink::Where::host, .number = 3};
  const Outcome cut = simulate(pairs(8, 1 << 20), options);
  EXPECT_EQ(cut.cut_off.size(), 8U);  // all ranks wait for those that wait for rank 3
  options.network.nics = 2;           // the other port takes over
  EXPECT_TRUE(simulate(pairs(8, 1 << 20), options).cut_off.empty());

  options.network = {.topology = Topology::fat_tree, .ports = 8};
  const double whole = simulate(pairs(8, 1 << 20), options).us;
  options.network.dead = DeadLink{.where = DeadLink::Where::leaf, .number = 1};
  const double weakened = simulate(pairs(8, 1 << 20), options).us;
  EXPECT_NEAR(weakened - whole, (1 << 20) * 1e-3 * (4.0 / 3 - 1), 1e-3);  // three of four links to the core are left
}

}  // namespace
}  // namespace unisono::simulate
