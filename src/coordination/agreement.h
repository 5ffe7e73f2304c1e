#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engines/shm/engine.h"
#include "coordination/group_topology.h"
#include "coordination/ballots.h"
#include "base/notifier.h"
#include "unisono/call.h"
#include "unisono/task.h"

namespace unisono::coordination {

/// The things that an agreement works with.
struct AgreementParts {
  const GroupTopology* topology = nullptr;
  engines::shm::ShmEngine* host = nullptr;  // null: this rank is alone on its host
  Ballots* ballots = nullptr;
  std::function<void(int rank, std::string text)> tell = {};  // sends a notice to a rank on another host
  std::function<void()> poll = {};
  base::Notifier* notifier = nullptr;           // notified when something has come
  std::function<bool()> is_over = {};           // whether the group has failed
  std::function<std::vector<int>()> gone = {};  // ranks from which nothing comes any more
  std::function<void()> all_but_told = {};  // called when this rank has nothing to hear from other hosts any more: who leaves now has done its part
};

/// All ranks of several hosts compare what they are about to call: those of a host among each other, then the first of each host with the
/// others, one short message to each, and what these found goes to all ranks of the host. A rank for which it is over knows that all ranks have come
/// and agree. Latency: one exchange of lines in the host, one message between hosts, one more exchange in the host.
///
/// A difference is a Mismatch on every rank, and the same ranks are to blame on all of them (see ballots.h): the first rank of a host on which they
/// differ tells every rank of the other hosts what each of its own has called, and is told by their first ranks what they have, as are its
/// neighbours; each rank of that host decides by itself then, so that none of them waits for another that has not come. Nobody waits longer than
/// ballot_time() for what others have called, nor for a host whose first rank is gone: what is known by then decides. Whoever decides without a host
/// tells the others so, who leave it out as well, that host itself included: all name the same culprit, but for what crosses on the way.
std::unique_ptr<Task> start_agreement(const AgreementParts& parts, std::uint64_t number, const CollectiveCall& call);

}  // namespace unisono::coordination
