#pragma once

#include <string_view>

#include "unisono/export.h"

namespace unisono::detail {

/// Tells the other processes of the job why this one leaves it early: they have PeerFailed with the
/// cause `aborted` and this reason. Nothing where this process is in no job.
UNISONO_API void give_up(std::string_view why);

}  // namespace unisono::detail
