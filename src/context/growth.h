#pragma once

#include <memory>

#include "context/state.h"
#include "rendezvous/rendezvous.h"

namespace unisono::context {

/// Waits until the members of a running job take this process in, and joins them. `facts`: as `rendezvous::facts_of_newcomer` returns them.
std::unique_ptr<State> join_running_job(const InitOptions& options, const Terms& terms, const rendezvous::JobIdentity& facts);

}  // namespace unisono::context
