#pragma once

#include <cstdint>
#include <memory>

#include "coordination/agreement_parts.h"
#include "unisono/call.h"
#include "unisono/task.h"

namespace unisono::coordination {

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
