#pragma once

#include <string>
#include <utility>

#include "unisono/error.h"

namespace unisono::rendezvous {

/// Returns the ErrorInfo of an error in joining the job: the call was `initialize`.
inline ErrorInfo info(std::string hint = {}) { return {.operation = "initialize", .hint = std::move(hint)}; }

}  // namespace unisono::rendezvous
