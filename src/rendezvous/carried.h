#pragma once

#include <optional>
#include <string>

#include "base/environment.h"
#include "rendezvous/identity.h"
#include "rendezvous/reach.h"
#include "rendezvous/rendezvous.h"

namespace unisono::rendezvous {

/// The meeting of ranks that mpirun started without an address for it.
struct BootstrapMeeting {
  Meeting meeting;
  std::optional<base::Secret> token = {};   ///< of the job, where ranks of several hosts meet
  std::optional<Bootstrap> bootstrap = {};  ///< the MPI job that was joined for it
};

/// Returns true for ranks that were started by an MPI's launcher alone, without MASTER_ADDR and MASTER_PORT.
bool is_carried(const EnvironmentIdentity& identity, const base::Environment& environment);

/// Makes the meeting; all ranks of a job that `is_carried` call it. Where the launcher says that they are on one host, they meet by its name for
/// the job, or by its process, without any MPI. Elsewhere MPI is joined: rank and size are MPI's, and rank 0 opens the meeting and tells the others
/// its address and its secret. Throws InvalidArgument where environment and MPI contradict each other. Returns nothing where there is no MPI to join.
std::optional<BootstrapMeeting> carried_meeting(EnvironmentIdentity& identity, const base::Environment& environment,
                                                const FindBootstrap& find_bootstrap);

}  // namespace unisono::rendezvous
