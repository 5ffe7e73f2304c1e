#pragma once

#include <chrono>
#include <memory>

#include "base/deadline.h"
#include "base/environment.h"
#include "context/formation.h"
#include "context/job.h"
#include "context/state.h"
#include "rendezvous/rendezvous.h"

namespace unisono::context {

/// Returns the timeout of calls. Throws InvalidArgument where it is not positive.
std::chrono::milliseconds timeout_of(const InitOptions& options, const base::Environment& environment);

/// Makes a world of one.
std::unique_ptr<State> alone();
/// Makes the state of a world whose members have met. Nobody is told of it yet. Collective.
std::unique_ptr<State> form_world(const InitOptions& options, const Terms& terms, const rendezvous::JobIdentity& identity, const Formation& formation,
                                  const base::Deadline& deadline);
/// Lets the log, the record and the launcher know that this process is that rank now.
void begin(State& state);

/// Meets the other processes and forms the world with them, or takes a place in a job that runs already. Collective.
std::unique_ptr<State> join(const InitOptions& options, const Terms& terms = {});

/// Waits until the members of a running job take this process in, and joins them. `job.facts`: as `rendezvous::facts_of_newcomer` returns them.
std::unique_ptr<State> join_running_job(const Job& job);

}  // namespace unisono::context
