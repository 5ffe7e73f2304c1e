// The places of the ranks, from their entries when they joined.

#include "context/topology.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "unisono/detail/switches.h"
#include "unisono/error.h"

namespace unisono::context {
namespace {

using Numbers = std::vector<int>;

std::vector<std::string> texts_of(const base::RepeatedTexts& list) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < list.size(); ++i) texts.push_back(list[i]);
  return texts;
}

/// A letter for the machine of each rank; its name is that letter, doubled.
std::vector<rendezvous::Member> members_on(const std::string& machines) {
  std::vector<rendezvous::Member> members;
  for (std::size_t r = 0; r < machines.size(); ++r) {
    members.push_back({.rank = static_cast<int>(r), .pid = 1, .host = std::string(2, machines[r]), .machine = std::string(1, machines[r])});
  }
  return members;
}

struct PresentedAs {
  explicit PresentedAs(std::vector<std::string> names) { detail::set_presented_hosts(std::move(names)); }
  ~PresentedAs() { detail::set_presented_hosts({}); }
};

TEST(Topology, RanksInAnyOrderOnSeveralMachinesHaveATopology) {
  const auto members = members_on("babca");
  const Topology of_3 = topology_of(members, 3);
  EXPECT_EQ(of_3.hosts, (Numbers{0, 1, 0, 2, 1}));
  EXPECT_EQ(texts_of(of_3.host_names), (std::vector<std::string>{"bb", "aa", "bb", "cc", "aa"}));
  EXPECT_EQ(of_3.nnodes, 3);
  EXPECT_EQ(of_3.machines, 3);
  EXPECT_EQ(of_3.node_rank, 2);
  EXPECT_EQ(of_3.local_rank, 0);
  EXPECT_EQ(of_3.nproc_per_node, 1);
  EXPECT_EQ(of_3.local_members, Numbers{3});
  const Topology of_4 = topology_of(members, 4);
  EXPECT_EQ(of_4.node_rank, 1);
  EXPECT_EQ(of_4.local_rank, 1);
  EXPECT_EQ(of_4.nproc_per_node, 2);
  EXPECT_EQ(of_4.local_members, (Numbers{1, 4}));
  EXPECT_EQ(topology_of(members, 0).local_rank, 0);
  EXPECT_EQ(topology_of(members, 2).local_rank, 1);
}

TEST(Topology, ThreadsHaveATopology) {
  const Topology topology = topology_of_threads(2, 3);
  EXPECT_EQ(topology.local_rank, 2);
  EXPECT_EQ(topology.nproc_per_node, 3);
  EXPECT_EQ(topology.nnodes, 1);
  EXPECT_EQ(topology.machines, 1);
  EXPECT_EQ(topology.node_rank, 0);
  EXPECT_EQ(topology.local_members, (Numbers{0, 1, 2}));
}

TEST(Topology, WhatRanksPresentIsNoOtherMachine) {
  const auto members = members_on("aab");
  {
    const PresentedAs presented({"x", "y", "y"});
    const Topology topology = topology_of(members, 2);
    EXPECT_EQ(topology.nnodes, 2);
    EXPECT_EQ(topology.machines, 2);
    EXPECT_EQ(topology.hosts, (Numbers{0, 1, 1}));
    EXPECT_EQ(texts_of(topology.host_names), (std::vector<std::string>{"x", "y", "y"}));
    EXPECT_EQ(topology.local_members, (Numbers{1, 2}));
    EXPECT_EQ(topology_of(members_on("aaa"), 0).machines, 1);
    EXPECT_THROW(static_cast<void>(topology_of(members_on("aa"), 0)), InvalidArgument);
  }
  EXPECT_EQ(topology_of(members, 2).hosts, (Numbers{0, 0, 1}));
}

TEST(Topology, HostsAreNamedWithTheirRanks) {
  EXPECT_EQ(topology_of(members_on("babca"), 0).describe_hosts(), "aa (rank 1, 4); bb (rank 0, 2); cc (rank 3)");
  EXPECT_EQ(topology_of(members_on("a"), 0).describe_hosts(), "aa (rank 0)");
}

TEST(Topology, TheLocalRankIsWhatWasGivenThenTheHint) {
  const Topology topology = topology_of(members_on("aaa"), 1);
  EXPECT_EQ(topology.choose_local_rank({}, {}), 1);
  EXPECT_EQ(topology.choose_local_rank({}, 2), 2);
  EXPECT_EQ(topology.choose_local_rank(0, 2), 0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(topology.choose_local_rank(1, {}), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");  // nothing is contradicted
  testing::internal::CaptureStderr();
  EXPECT_EQ(topology.choose_local_rank(2, {}), 2);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("local rank 2 was given, but this process is number 1 of its host's 3"), std::string::npos);
}

TEST(Topology, TheLocalRankOfARankThatPresentsItselfOnAnotherHostIsCountedThere) {
  const PresentedAs presented({"x", "y", "y"});
  const Topology topology = topology_of(members_on("aaa"), 2);
  testing::internal::CaptureStderr();
  EXPECT_EQ(topology.choose_local_rank(2, 2), 1);  // the launcher counts the processes of the machine
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// As the processes of a launcher that binds each rank: together they have as many processors as they are.
TEST(Topology, TheProcessorsOfAllRanksOfThisMachineAreCounted) {
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE && cpus.size() < 2; ++cpu) {
    if (CPU_ISSET(cpu, &all)) cpus.push_back(cpu);
  }
  if (cpus.size() < 2) GTEST_SKIP() << "this process may use one processor alone";
  std::vector<rendezvous::Member> members;
  std::vector<pid_t> children;
  for (int r = 0; r < 4; ++r) {
    children.push_back(::fork());
    if (children.back() == 0) {
      for (;;) ::pause();
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpus[static_cast<std::size_t>(r % 2)], &one);
    ASSERT_EQ(::sched_setaffinity(children.back(), sizeof one, &one), 0);
    members.push_back({.rank = r, .pid = children.back(), .host = "a", .machine = r < 3 ? "m" : "another"});
  }
  std::thread bound([&] {  // as rank 0 is
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpus[0], &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(topology_of(members, 0).processors, 2);
    members[1].machine = "another";  // the only one with the other processor
    EXPECT_EQ(topology_of(members, 0).processors, 1);
  });
  bound.join();
  for (const pid_t child : children) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

}  // namespace
}  // namespace unisono::context
