#pragma once

#include <memory>

#include "context/job.h"
#include "context/state.h"

namespace unisono::context {

/// Meets the other processes and forms the world with them, or takes a place in a job that runs already. Collective.
std::unique_ptr<State> join(const InitOptions& options, const Terms& terms = {});

}  // namespace unisono::context
