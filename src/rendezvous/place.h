#pragma once

#include <memory>

#include "base/environment.h"
#include "rendezvous/identity.h"
#include "rendezvous/reach.h"

namespace unisono::rendezvous {

/// Returns the meeting of a job whose environment gives the ranks: at MASTER_ADDR and MASTER_PORT, beside torchrun's agent, or at Slurm's first node.
/// Throws InvalidArgument where neither the variables nor Slurm name a place.
std::unique_ptr<Meeting> meeting_by_environment(const EnvironmentIdentity& identity, int rank, const base::Environment& environment,
                                                const base::Deadline& deadline);

}  // namespace unisono::rendezvous
