#pragma once

#include <optional>

#include "unisono/context.h"

namespace unisono::context {

/// Returns how to join the job that somebody else has formed in this process: what a probe of the program says, else the MPI that the program uses.
/// Rank and world size are set. Returns nullopt where there is no such job, or it has one process. A call is cheap while no library is loaded and no
/// probe finds a job.
std::optional<InitOptions> foreign_job();

}  // namespace unisono::context
