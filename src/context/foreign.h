#pragma once

#include <optional>

#include "unisono/context.h"

namespace unisono::context {

/// How to join the job that somebody else has formed in this process: what a probe of the program's says, else the MPI that the program uses. Rank
/// and world size are set. Nullopt where there is none, or it is a job of one. As long as no library is loaded and no probe finds one, asking costs
/// next to nothing.
std::optional<InitOptions> foreign_job();

}  // namespace unisono::context
