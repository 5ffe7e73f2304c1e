#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "coordination/ballots.h"
#include "coordination/exchange.h"
#include "coordination/group_topology.h"
#include "engines/host_engine.h"

namespace unisono::coordination {

/// The parts of a group that an agreement uses.
struct AgreementParts {
  const GroupTopology* topology = nullptr;
  engines::HostEngine* host = nullptr;  // null: this rank is alone on its host
  Ballots* ballots = nullptr;
  std::function<void(int rank, const std::string& text)> tell = {};  // sends a notice to a rank on another host
  std::function<void(const std::string& text)> tell_others = {};     // to all ranks on other hosts
  ExchangeRoute route = {};
  ExchangeMemory* memory = nullptr;
  std::function<void()> poll = {};
  // sleeps as Link::sleep does
  std::function<bool(const std::function<bool()>& is_over, std::chrono::nanoseconds at_most)> sleep = {};
  std::function<bool()> is_over = {};  // returns true where the group has failed
  // returns true for a rank that has left the group after this agreement, though this rank may not know yet what came of it
  std::function<bool(int rank, std::uint64_t number)> has_left_after = [](int, std::uint64_t) { return false; };
  std::function<std::vector<int>()> gone = {};  // the ranks from which nothing comes any more
  // called with true when ranks are known to differ, and with false when this rank has decided who is to blame
  std::function<void(bool is_disputed)> set_disputed = {};
  // called when this rank needs nothing more from other hosts: a rank that leaves from then on has done its part
  std::function<void()> all_but_told = {};
};

}  // namespace unisono::coordination
