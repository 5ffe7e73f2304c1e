// UNISONO_TLS=required: what unisono does not encrypt does not leave a host.

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "context/engines.h"
#include "unisono/engine.h"
#include "unisono/error.h"

namespace unisono::context {
namespace {

/// What the two ranks of a world come to, one on each of so many hosts: the engine, or the error's text.
std::vector<std::string> chosen_by_two(const std::string& backend, int hosts, const std::string& tls) {
  MemoryStore store;
  Topology topology;
  topology.machines = hosts;
  topology.host_names = {"host0", "host1"};
  std::vector<std::string> chosen(2);
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      InitOptions options;
      options.backend = backend;
      const base::Deadline deadline(std::chrono::seconds(60));
      const base::Environment environment(std::map<std::string, std::string, std::less<>>{{"UNISONO_TLS", tls}});
      try {
        chosen[static_cast<std::size_t>(rank)] = select_engines(options, environment, topology, Launcher::none, {rank, 2, store, deadline}).host;
      } catch (const Error& error) {
        chosen[static_cast<std::size_t>(rank)] = error.message();
      }
    });
  }
  ranks.clear();
  return chosen;
}

TEST(EncryptedEngines, OthersAreRefusedBetweenHostsWhereEncryptionIsRequired) {
  const std::string other = "test_unencrypted";
  register_engine(other, [](const EngineOptions&) -> std::unique_ptr<Engine> { throw Error("made"); });
  const std::string refusal = "UNISONO_TLS=required, and unisono does not encrypt the connections of backend test_unencrypted between hosts";
  EXPECT_EQ(chosen_by_two(other, 2, "required"), (std::vector<std::string>{refusal, refusal}));
  EXPECT_EQ(chosen_by_two(other, 1, "required"), (std::vector<std::string>{other, other}));
  EXPECT_EQ(chosen_by_two(other, 2, "on"), (std::vector<std::string>{other, other}));
  EXPECT_EQ(chosen_by_two(other, 2, ""), (std::vector<std::string>{other, other}));
  EXPECT_EQ(chosen_by_two("auto", 2, "required"), (std::vector<std::string>{"tcp", "tcp"}));
  EXPECT_EQ(chosen_by_two("tcp", 2, "required"), (std::vector<std::string>{"tcp", "tcp"}));
}

}  // namespace
}  // namespace unisono::context
