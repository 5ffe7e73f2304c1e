#pragma once

#include <optional>
#include <string_view>

#include "unisono/context.h"

namespace unisono::context {

/// Returns how to join the job that somebody else has formed in this process: what a probe of the program says, else the MPI that the program uses.
/// Rank and world size are set. Returns nullopt where there is no such job, or it has one process. A call is cheap while no library is loaded and no
/// probe finds a job.
std::optional<InitOptions> foreign_job();

/// Tells whether the program has registered a handler for this init_method.
bool has_handler(std::string_view init_method);
/// Calls the program's handler, which turns the request into a store, a rank and a size. Returns nullopt where there is no handler.
std::optional<InitOptions> through_handler(const InitOptions& options);

}  // namespace unisono::context
