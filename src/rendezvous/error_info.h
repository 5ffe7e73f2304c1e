#pragma once

#include <string>
#include <utility>

#include "unisono/error.h"

namespace unisono::rendezvous {

/// What an error of joining the job says beside its sentence: the call was `initialize`.
inline ErrorInfo info(std::string hint = {}) { return {.operation = "initialize", .hint = std::move(hint)}; }

}  // namespace unisono::rendezvous
