// The modes of fault_rank that do the same again and again, and say what this process holds before and after.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "context/state.h"
#include "fault_rank.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

std::size_t entries_of(const char* folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

std::size_t mappings_of_ours() {
  std::ifstream file("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(file, line);) count += line.find("memfd:unisono") != std::string::npos ? 1 : 0;
  return count;
}

long resident_kib() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    if (word != "RssAnon:") continue;
    long kib = 0;
    file >> kib;
    return kib;
  }
  throw std::runtime_error("/proc/self/status has no RssAnon");
}

/// "held NAME: descriptors … mappings … threads … keys … resident …"; the test compares two of them.
void say_held(const std::string& name) {
  barrier();  // no rank is about to make or erase a key
  say(fmt::format("held {}: descriptors {} mappings {} threads {} keys {} resident {}", name, entries_of("/proc/self/fd"), mappings_of_ours(),
                  entries_of("/proc/self/task"), context::current().groups.store()->num_keys(), resident_kib()));
  barrier();
}

void expect_sum(const ProcessGroup& group, int round) {
  int expected = 0;
  for (int r = 0; r < group.size(); ++r) expected += (group.global_rank(r) + 1) * (round % 1000 + 1);
  const int sum = all_reduce((rank() + 1) * (round % 1000 + 1), ReduceOp::sum, group);
  if (sum != expected) throw std::logic_error(fmt::format("the sum of round {} is {}, not {}", round, sum, expected));
}

/// Makes two groups and ends them: one of half of the ranks, and one of all.
void make_groups(int round, const std::string& backend) {
  const auto half = split_group(world(), rank() % 2, -rank(), {.backend = backend});
  expect_sum(*half, round);
  expect_sum(new_group({.backend = backend}), round);
}

/// groups TIMES BACKEND: after that many groups, and after as many again and a half.
int many_groups(int times, const std::string& backend) {
  block_go();
  initialize(options_from_environment());
  constexpr int warm = 1000;  // rounds: the record of calls has been through, what is made at first use, and what is kept of the last groups
  for (int round = 0; round < warm; ++round) make_groups(round, backend);
  say_held("before");
  say_ready();
  wait_for_go();
  for (int round = 0; round < times / 2; ++round) make_groups(round, backend);
  say_held("after");
  say("all made");
  wait_for_go();
  finalize();
  return 0;
}

/// worlds TIMES: one world after another, with all their connections.
int many_worlds(int times) {
  constexpr int warm = 20;
  for (int i = -warm; i < times; ++i) {
    initialize(options_from_environment());
    expect_sum(world(), i + warm);
    if (i == -1) say_held("before");
    if (i == times - 1) say_held("after");
    finalize();
  }
  return 0;
}

/// generations SIZE LOSSES: the job loses its rank 1 again and again, and takes in the process that replaces it. Says how many keys the store has
/// each time that all are there.
int many_generations(int size, int losses) {
  const Context context(options_from_environment());
  ElasticState state;
  std::vector<std::int64_t> keys;
  state.object("keys", keys);
  std::optional<ProcessGroup> counted;
  run_elastic(state, [&](const ProcessGroup& group) {
    if (group.size() < size) {
      barrier(group);
    } else if (!counted || *counted != group) {
      expect_sum(*split_group(group, group.rank() % 2, -group.rank()), static_cast<int>(state.step));
      barrier(group);  // no rank is about to make or erase a key
      std::int64_t now = group.rank() == 0 ? context::current().job.facts.growth.store->num_keys() : 0;
      now = broadcast(now, 0, group);
      keys.push_back(now);
      counted = group;
    } else {
      if (std::ssize(keys) > losses) return false;
      if (group.rank() == 1) ::raise(SIGKILL);
      barrier(group);
    }
    ++state.step;
    return true;
  });
  if (rank() == 0) say(fmt::format("keys {}", fmt::join(keys, " ")));
  return 0;
}

}  // namespace

std::optional<int> run_growth_mode(const std::string& mode, const std::string& first, const std::string& second) {
  if (mode == "groups") return many_groups(std::stoi(first), second);
  if (mode == "worlds") return many_worlds(std::stoi(first));
  if (mode == "generations") return many_generations(std::stoi(first), std::stoi(second));
  return std::nullopt;
}

}  // namespace unisono::testing
