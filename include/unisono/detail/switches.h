#pragma once

#include <chrono>

#include "unisono/export.h"

namespace unisono::detail {

/// The comparison of calls between ranks (api rule 6), switched off only to measure what it costs. The same on all ranks.
UNISONO_API void set_call_comparison(bool on) noexcept;
UNISONO_API bool call_comparison() noexcept;

/// How long a peer that one waits for may be stopped (SIGSTOP, a debugger) before it counts as failed: 30 s, unless a test has less patience.
UNISONO_API void set_silence_limit(std::chrono::milliseconds limit) noexcept;
UNISONO_API std::chrono::milliseconds silence_limit() noexcept;

}  // namespace unisono::detail
