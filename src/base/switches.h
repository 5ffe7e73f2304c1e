#pragma once

#include <atomic>

#include "unisono/detail/switches.h"

namespace unisono::base {

/// What `detail::set_call_comparison` sets: every collective in shared memory reads it.
extern std::atomic<bool> compares_calls;

}  // namespace unisono::base
