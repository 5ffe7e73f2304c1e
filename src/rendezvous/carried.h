#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/environment.h"
#include "rendezvous/identity.h"
#include "rendezvous/reach.h"
#include "unisono/engine.h"

namespace unisono::rendezvous {

/// Joins a job that an MPI's launcher has started (`join`), or says that the program has joined one already. Nothing where there is none.
using FindBootstrap = std::function<std::optional<Bootstrap>(bool join)>;

/// Where ranks meet that mpirun started, to whom nobody said where.
struct BootstrapMeeting {
  std::unique_ptr<Meeting> meeting;
  std::optional<std::string> token = {};    ///< of the job, where ranks of several hosts meet
  std::optional<Bootstrap> bootstrap = {};  ///< of the MPI that was joined for that
};

/// True of ranks that an MPI's launcher started and nobody else, and to whom MASTER_ADDR and MASTER_PORT say nothing.
bool is_carried(const EnvironmentIdentity& identity, const base::Environment& environment);

/// All ranks of a job that `is_carried` call it. Where Open MPI's launcher says that they are on one host, its name for the job is enough. Elsewhere
/// MPI is joined: rank and size are MPI's, and rank 0 opens the meeting and tells the others where it is, and the secret it has made for it.
/// InvalidArgument where environment and MPI contradict each other. Nothing where there is no MPI to join.
std::optional<BootstrapMeeting> carried_meeting(EnvironmentIdentity& identity, const base::Environment& environment,
                                                const FindBootstrap& find_bootstrap);

}  // namespace unisono::rendezvous
