#pragma once

#include <memory>

#include "base/environment.h"
#include "rendezvous/identity.h"
#include "rendezvous/reach.h"

namespace unisono::rendezvous {

/// Where the processes of a job meet whose environment says who they are: at MASTER_ADDR and MASTER_PORT, beside torchrun's agent, or where Slurm put
/// them. InvalidArgument where neither variables nor Slurm name a place.
std::unique_ptr<Meeting> meeting_by_environment(const EnvironmentIdentity& identity, int rank, const base::Environment& environment,
                                                const base::Deadline& deadline);

}  // namespace unisono::rendezvous
