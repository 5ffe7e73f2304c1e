#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coordination/ballots.h"
#include "coordination/exchange.h"
#include "coordination/group_topology.h"
#include "engines/host_engine.h"
#include "unisono/call.h"
#include "unisono/task.h"

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

/// Compares the next call of all ranks on several hosts: the ranks of a host among each other, then the first ranks of the hosts in an exchange
/// (exchange.h), and their result goes to all ranks of the host. A rank whose agreement is done knows that all ranks have come and agree; it has
/// `carried->all` then. Latency: an exchange of lines in the host, the rounds between the hosts, another exchange in the host.
///
/// A difference is a Mismatch on every rank, with the same culprits (see ballots.h). The first rank that sees one sends its statement to the first
/// ranks of all other hosts, which then do the same. The first rank of a host whose ranks differ sends the call of each of its ranks to every rank of
/// the other hosts, and receives theirs from their first ranks, as do its neighbours. Each rank of that host then decides by
/// itself, so none waits for another that has not come. A rank waits for ballots at most ballot_time(), and not for a host whose first rank is gone:
/// the known ballots decide. A rank that decides without a host tells the others, which leave it out as well, that host included. So all name the
/// same culprit, except where notices cross.
///
/// `parts`, `call` and `carried` must live as long as the task. `carried` may be null.
std::unique_ptr<Task> start_agreement(const AgreementParts& parts, std::uint64_t number, const CollectiveCall& call, Carried* carried);

}  // namespace unisono::coordination
