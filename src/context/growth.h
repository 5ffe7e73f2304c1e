#pragma once

#include <memory>

#include "context/job.h"
#include "context/state.h"

namespace unisono::context {

/// Waits until the members of a running job take this process in, and joins them. `job.facts`: as `rendezvous::facts_of_newcomer` returns them.
std::unique_ptr<State> join_running_job(const Job& job);

}  // namespace unisono::context
