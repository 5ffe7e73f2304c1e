#pragma once

#include <span>

#include "launch/api/outcome.h"
#include "launch/job_options.h"

namespace unisono::launcher {

/// Throws LaunchFailed where a rank has left no result, with the first cause, how it ended, and how the others did.
void throw_if_failed(const JobResult& result, std::span<const Outcome> outcomes);

}  // namespace unisono::launcher
