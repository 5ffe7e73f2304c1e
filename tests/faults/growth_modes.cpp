// The modes of fault_rank that do the same again and again, and say what this process holds before and after.

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

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
                  entries_of("/proc/self/task"), context::current().group_store->num_keys(), resident_kib()));
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

}  // namespace

std::optional<int> run_growth_mode(const std::string& mode, const std::string& first, const std::string& second) {
  if (mode == "groups") return many_groups(std::stoi(first), second);
  if (mode == "worlds") return many_worlds(std::stoi(first));
  return std::nullopt;
}

}  // namespace unisono::testing
