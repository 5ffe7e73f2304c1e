// Which cores the ranks of a host are bound to: the rule on machines that are made up, and the locks by which jobs see each other's cores.

#include "launch/job/placement.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "launch/job/other_binder.h"
#include "unit/temporary_file.h"

namespace unisono::launcher {
namespace {

using Places = std::vector<std::vector<int>>;
using Words = std::vector<std::string>;

/// Cores 0, 1, … with so many processors each, which the system numbers as it does on most machines: the first ones of all cores come first.
std::vector<Core> machine(int cores, int siblings = 1) {
  std::vector<Core> all;
  for (int core = 0; core < cores; ++core) {
    all.push_back({.number = core});
    for (int sibling = 0; sibling < siblings; ++sibling) all.back().processors.push_back(core + sibling * cores);
  }
  return all;
}

struct Placed : Placement {
  std::set<int> taken;  ///< the numbers of cores
};

/// `held`: cores that another job holds.
Placed place(const PlacementFacts& facts, const std::vector<Core>& cores, const std::set<int>& held = {}) {
  Placed placed;
  static_cast<Placement&>(placed) = place_ranks(facts, cores, [&](const Core& core) {
    if (held.contains(core.number)) return false;
    placed.taken.insert(core.number);
    return true;
  });
  return placed;
}

void expect_unbound(const Placement& placed, const std::string& why) {
  EXPECT_EQ(placed.processors, Places());
  EXPECT_EQ(placed.text, "no rank is bound: " + why);
}

TEST(Placement, RanksThatFillTheCoresGetOneEach) {
  const Placed placed = place({.ranks = 4}, machine(4));
  EXPECT_EQ(placed.processors, (Places{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(placed.text, "each of 4 ranks is bound to 1 of 4 cores");
}

TEST(Placement, RanksThatDoNotFillTheCoresGetAllTheirShares) {
  EXPECT_EQ(place({.ranks = 2}, machine(8)).processors, (Places{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  const Placed uneven = place({.ranks = 3}, machine(8));
  EXPECT_EQ(uneven.processors, (Places{{0, 1}, {2, 3, 4}, {5, 6, 7}}));
  EXPECT_EQ(uneven.text, "each of 3 ranks is bound to 2 or 3 of 8 cores");
}

TEST(Placement, OneThreadInTheVariableChangesNothing) {
  EXPECT_EQ(place({.ranks = 2, .threads = 1}, machine(8)).processors, place({.ranks = 2}, machine(8)).processors);
}

TEST(Placement, ARankWithSeveralThreadsGetsSoManyCoresAndTheRestStaysFree) {
  const Placed placed = place({.ranks = 2, .threads = 3}, machine(8));
  EXPECT_EQ(placed.processors, (Places{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(placed.text, "each of 2 ranks is bound to 3 of 8 cores");
  EXPECT_EQ(placed.taken, (std::set<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(place({.ranks = 1, .threads = 3}, machine(8)).processors, (Places{{0, 1, 2}}));
}

TEST(Placement, RanksGetWholeCoresBeforeSiblings) {
  EXPECT_EQ(place({.ranks = 2}, machine(2, 2)).processors, (Places{{0, 2}, {1, 3}}));
  EXPECT_EQ(place({.ranks = 2, .threads = 2}, machine(4, 2)).processors, (Places{{0, 4, 1, 5}, {2, 6, 3, 7}}));
  EXPECT_EQ(place({.ranks = 3}, machine(2, 2)).processors, (Places{{0}, {1}, {2}}));
  const Placed full = place({.ranks = 4}, machine(2, 2));
  EXPECT_EQ(full.processors, (Places{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(full.text, "each of 4 ranks is bound to a processor of 2 cores");
}

TEST(Placement, SiblingsServeThreadsWhereCoresDoNotSuffice) {
  EXPECT_EQ(place({.ranks = 2, .threads = 2}, machine(2, 2)).processors, (Places{{0, 2}, {1, 3}}));
  EXPECT_EQ(place({.ranks = 3, .threads = 2}, machine(4, 2)).processors, (Places{{0, 4}, {1, 5}, {2, 6, 3, 7}}));
  // One rank would have two processors for three threads.
  expect_unbound(place({.ranks = 2, .threads = 3}, machine(3, 2)), "2 ranks of 3 threads (OMP_NUM_THREADS) share 6 cores");
  expect_unbound(place({.ranks = 3, .threads = 2}, machine(2, 4)), "3 ranks of 2 threads (OMP_NUM_THREADS) share 8 cores");
}

TEST(Placement, RanksThatOutnumberTheCoresAreNotBound) {
  expect_unbound(place({.ranks = 3}, machine(2)), "3 ranks share 2 cores");
  expect_unbound(place({.ranks = 5}, machine(2, 2)), "5 ranks share 4 cores");
  expect_unbound(place({.ranks = 2, .threads = 2}, machine(2)), "2 ranks of 2 threads (OMP_NUM_THREADS) share 2 cores");
  expect_unbound(place({.ranks = 2, .threads = 1 << 16}, machine(2)), "2 ranks of 65536 threads (OMP_NUM_THREADS) share 2 cores");
  EXPECT_EQ(place({.ranks = 3}, machine(2)).taken, std::set<int>());
}

TEST(Placement, AControlGroupsTimeCountsAsCoresAndAllProcessorsAreShared) {
  expect_unbound(place({.ranks = 3, .at_a_time = 2}, machine(8)), "3 ranks share 2 cores");
  EXPECT_EQ(place({.ranks = 2, .at_a_time = 2}, machine(4)).processors, (Places{{0, 1}, {2, 3}}));
  EXPECT_EQ(place({.ranks = 2, .threads = 2, .at_a_time = 4}, machine(8)).processors, (Places{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(place({.ranks = 2, .threads = 2, .at_a_time = 8}, machine(8)).processors, (Places{{0, 1}, {2, 3}}));
}

TEST(Placement, TheOnlyRankIsNotBoundToAllThatThereIs) {
  expect_unbound(place({.ranks = 1}, machine(2)), "the only rank may use 2 cores");
  expect_unbound(place({.ranks = 1, .threads = 2}, machine(2)), "the only rank may use 2 cores");
  EXPECT_EQ(place({.ranks = 1}, machine(2)).taken, std::set<int>());
}

TEST(Placement, RanksAreNotBoundOntoCoresThatAnotherJobHolds) {
  expect_unbound(place({.ranks = 2}, machine(2), {0, 1}), "other jobs hold 2 of 2 cores");
  // Later the rest of the cores would be free, and ranks that were bound to the first ones would not use them.
  expect_unbound(place({.ranks = 2}, machine(4), {3}), "other jobs hold 1 of 4 cores");
  expect_unbound(place({.ranks = 2, .threads = 2}, machine(5), {1, 3}), "other jobs hold 2 of 5 cores");
  EXPECT_EQ(place({.ranks = 2, .threads = 2}, machine(8), {0, 1, 5}).processors, (Places{{2, 3}, {4, 6}}));
}

TEST(Placement, RanksAreNotBoundWhereSomebodyElseBindsThem) {
  expect_unbound(place({.ranks = 2, .bound_by = "taskset"}, machine(2)), "taskset decides where they run");
  expect_unbound(place({.binding = Binding::none, .ranks = 2}, machine(2)), "--bind none");
}

TEST(Placement, BindCoreBindsEachRankToItsCoreWhoeverElseIsThere) {
  const Placed placed = place({.binding = Binding::core, .ranks = 5, .threads = 2, .at_a_time = 1, .bound_by = "taskset"}, machine(2, 2), {0});
  EXPECT_EQ(placed.processors, (Places{{0}, {1}, {2}, {3}, {0}}));
  EXPECT_EQ(placed.text, "each rank is bound to one processor (--bind core)");
  EXPECT_EQ(placed.taken, std::set<int>{1});
}

/// Two L3 caches of four cores each, with two processors a core, on machine(8, 2).
const HostParts caches{.name = "L3 cache", .processors = {{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}}};
const std::vector<int> first_cache{0, 1, 2, 3, 8, 9, 10, 11}, second_cache{4, 5, 6, 7, 12, 13, 14, 15};

TEST(Placement, APartIsSharedByTheRanksWhoseSharesBeginInIt) {
  const Placed placed = place({.binding = Binding::l3, .parts = caches, .ranks = 4}, machine(8, 2));
  EXPECT_EQ(placed.processors, (Places{first_cache, first_cache, second_cache, second_cache}));
  EXPECT_EQ(placed.text, "each of 4 ranks is bound to all cores of one of 2 L3 caches");
  EXPECT_EQ(placed.taken, (std::set<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(place({.binding = Binding::l3, .parts = caches, .ranks = 2}, machine(8, 2)).processors, (Places{first_cache, second_cache}));
}

TEST(Placement, PartsInWhichNoShareBeginsStayFree) {
  const Placed placed = place({.binding = Binding::l3, .parts = caches, .ranks = 1, .threads = 8}, machine(8, 2));
  EXPECT_EQ(placed.processors, Places{first_cache});
  EXPECT_EQ(placed.taken, (std::set<int>{0, 1, 2, 3}));
}

TEST(Placement, ProcessorsThatTheLauncherMayNotUseAreInNoPart) {
  // A container has the last core of the first cache, and two of the second one.
  const std::vector<Core> some{{.number = 3, .processors = {3, 11}}, {.number = 4, .processors = {4}}, {.number = 6, .processors = {6, 14}}};
  EXPECT_EQ(place({.binding = Binding::l3, .parts = caches, .ranks = 3}, some).processors, (Places{{3, 11}, {4, 6, 14}, {4, 6, 14}}));
  const std::vector<Core> of_second{some.begin() + 1, some.end()};
  EXPECT_EQ(place({.binding = Binding::l3, .parts = caches, .ranks = 2}, of_second).text,
            "each of 2 ranks is bound to all cores of one of 1 L3 cache");
  expect_unbound(place({.binding = Binding::l3, .parts = caches, .ranks = 1}, of_second), "the only rank may use 2 cores");
  expect_unbound(place({.binding = Binding::l3, .parts = {.name = "L3 cache", .processors = {{99}}}, .ranks = 1}, some),
                 "none of 3 cores is in any L3 cache");
}

TEST(Placement, RanksAreBoundToPartsOnlyWhereTheyAreBoundToShares) {
  const auto with_parts = [](PlacementFacts facts, const std::set<int>& held = {}) {
    facts.binding = Binding::numa;
    facts.parts = {.name = "NUMA node", .processors = caches.processors};
    return place(facts, machine(8, 2), held);
  };
  expect_unbound(with_parts({.ranks = 17}), "17 ranks share 16 cores");
  expect_unbound(with_parts({.ranks = 5, .at_a_time = 4}), "5 ranks share 4 cores");
  expect_unbound(with_parts({.ranks = 4, .threads = 5}), "4 ranks of 5 threads (OMP_NUM_THREADS) share 16 cores");
  expect_unbound(with_parts({.ranks = 1, .threads = 9}), "1 rank of 9 threads (OMP_NUM_THREADS) share 8 cores of one NUMA node");
  expect_unbound(with_parts({.ranks = 2, .bound_by = "taskset"}), "taskset decides where they run");
  expect_unbound(with_parts({.ranks = 2}, {2, 5}), "other jobs hold 2 of 8 cores");
  EXPECT_EQ(with_parts({.ranks = 1}, {5}).processors, Places{first_cache});
}

/// A folder that stands for that of the system.
class Processors {
 public:
  void add(int processor, const std::string& siblings, const std::string& package) const {
    const std::string about = folder() + "/cpu" + std::to_string(processor) + "/topology";
    std::filesystem::create_directories(about);
    std::ofstream(about + "/thread_siblings_list") << siblings << "\n";
    std::ofstream(about + "/physical_package_id") << package << "\n";
  }
  const std::string& folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

TEST(Cores, CoresStandInTheOrderOfTheirSocketsWithTheirSiblings) {
  const Processors system;
  for (int processor = 0; processor < 8; ++processor) {  // even ones on the first socket, odd ones on the second
    const int first = processor % 4;
    system.add(processor, std::to_string(first) + "," + std::to_string(first + 4), std::to_string(processor % 2));
  }
  std::vector<int> packages, numbers;
  Places processors;
  for (const Core& core : cores_of({0, 1, 2, 3, 4, 6, 7}, system.folder())) {
    packages.push_back(core.package);
    numbers.push_back(core.number);
    processors.push_back(core.processors);
  }
  EXPECT_EQ(packages, (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(numbers, (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(processors, (Places{{0, 4}, {2, 6}, {1}, {3, 7}}));
}

TEST(Cores, ACoreHasOneNameForProcessesThatMayUseDifferentSiblings) {
  const Processors system;
  system.add(5, "1,5", "0");
  const std::vector<Core> cores = cores_of({5}, system.folder());
  ASSERT_EQ(cores.size(), 1U);
  EXPECT_EQ(cores.front().number, 1);
  EXPECT_EQ(cores.front().processors, std::vector<int>{5});
}

TEST(Cores, ProcessorsOfWhichTheSystemSaysNothingAreCores) {
  const Processors system;
  system.add(2, "nonsense", "nonsense");
  const std::vector<Core> cores = cores_of({1, 2}, system.folder());
  ASSERT_EQ(cores.size(), 2U);
  EXPECT_EQ(cores[1].number, 2);
  EXPECT_EQ(cores[1].package, 0);
}

TEST(Cores, ACoreIsHeldByOneJobUntilThatIsOver) {
  const Processors system;
  for (const char* processor : {"0", "1"}) system.add(*processor - '0', processor, "0");
  HeldCores second(system.folder());
  {
    HeldCores first(system.folder());
    EXPECT_TRUE(first.take({.number = 0}));
    EXPECT_FALSE(second.take({.number = 0}));
    EXPECT_EQ(second.error(), 0);
    EXPECT_TRUE(second.take({.number = 1}));
  }
  EXPECT_TRUE(second.take({.number = 0}));
}

TEST(Cores, TheKernelDropsTheCoresOfAProcessThatIsKilled) {
  const Processors system;
  system.add(0, "0", "0");
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    HeldCores held(system.folder());
    const char word = held.take({.number = 0}) ? 'y' : 'n';
    if (::write(ends[1], &word, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  ::close(ends[1]);
  char word = 0;
  EXPECT_EQ(::read(ends[0], &word, 1), 1);
  EXPECT_EQ(word, 'y');
  HeldCores own(system.folder());
  EXPECT_FALSE(own.take({.number = 0}));
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(own.take({.number = 0}));
  ::close(ends[0]);
}

TEST(Cores, ASystemThatLetsNoCoreBeHeldIsNoOtherJob) {
  HeldCores held("/no/such/folder");
  EXPECT_FALSE(held.take({.number = 0}));
  EXPECT_EQ(held.error(), ENOENT);
}

std::string binder_of(const Words& command, const std::map<std::string, std::string, std::less<>>& variables = {}) {
  return other_binder(command.front(), command, base::Environment(variables));
}

TEST(OtherBinder, APrefixOfTheProgramBindsTheRanks) {
  EXPECT_EQ(binder_of({"/usr/bin/taskset", "-c", "0", "app"}), "taskset");
  EXPECT_EQ(binder_of({"env", "A=b", "numactl", "-N", "0", "app"}), "numactl");
  EXPECT_EQ(binder_of({"/usr/bin/mpirun.openmpi", "-n", "2", "app"}), "mpirun");
  EXPECT_EQ(binder_of({"python3", "-m", "unisono", "run", "-n", "2", "app"}), "unisono run");
  EXPECT_EQ(binder_of({"/opt/bin/unisono", "info"}), "");
  EXPECT_EQ(binder_of({"app", "run", "--like-taskset", "tasksets"}), "");
}

TEST(OtherBinder, ACommandOfAShellBindsTheRanks) {
  EXPECT_EQ(binder_of({"/bin/sh", "-c", "A=1 exec $(which numactl) -C $LOCAL_RANK app"}), "numactl");
  EXPECT_EQ(binder_of({"/bin/sh", "-c", "cd run; # taskset\napp"}), "");
}

TEST(OtherBinder, AShellScriptBindsTheRanks) {
  const TemporaryFolder folder;
  const std::string script = folder.file("bind");
  const auto is = [&](const std::string& text, const Words& command) {
    std::ofstream(script) << text;
    return binder_of(command);
  };
  EXPECT_EQ(is("#!/bin/bash\ncase $LOCAL_RANK in\n0) exec numactl -C 3 \"$@\";;\nesac\n", {script, "app"}), "numactl");
  EXPECT_EQ(is("exec taskset -c 1 $@\n", {"bash", "-e", script, "app"}), "taskset");
  EXPECT_EQ(is("#!/bin/bash\n# as mpirun -n 4 does\nexec \"$@\"\n", {script, "app"}), "");
  EXPECT_EQ(is("#!/usr/bin/env python3\n'''mpirun -n 4 this'''\n", {script}), "");
  EXPECT_EQ(is("#!/usr/bin/env bash\nsrun app", {script}), "srun");
  EXPECT_EQ(is("#!/bin/sh -e\nsrun app", {script}), "srun");
}

TEST(OtherBinder, VariablesOfOpenMpThatNameProcessorsBindTheRanks) {
  EXPECT_EQ(binder_of({"app"}, {{"GOMP_CPU_AFFINITY", "0-3"}}), "GOMP_CPU_AFFINITY");
  EXPECT_EQ(binder_of({"app"}, {{"KMP_AFFINITY", "explicit,proclist=[0,1]"}}), "KMP_AFFINITY");
  EXPECT_EQ(binder_of({"app"}, {{"OMP_PLACES", "{0:4},{4:4}"}}), "OMP_PLACES");
  EXPECT_EQ(binder_of({"app"}, {{"OMP_PLACES", "cores"}, {"KMP_AFFINITY", "compact"}, {"OMP_PROC_BIND", "close"}}), "");
}

}  // namespace
}  // namespace unisono::launcher
