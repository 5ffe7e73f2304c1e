#pragma once

#include <atomic>
#include <chrono>

#include "unisono/detail/switches.h"

namespace unisono::base {

/// Set by `detail::set_call_comparison` and read by every collective in shared memory.
extern std::atomic<bool> compares_calls;
/// Set by `detail::set_call_recording`.
extern std::atomic<bool> records_calls;

/// Sets the limit of silence unless the program has set one.
void suggest_silence_limit(std::chrono::milliseconds limit) noexcept;

}  // namespace unisono::base
