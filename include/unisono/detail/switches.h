#pragma once

#include <string>
#include <vector>

#include "unisono/detail/standard.h"
#include "unisono/export.h"

namespace unisono::detail {

/// Switches the comparison of calls between ranks on or off, which is done only to measure what it
/// costs. The setting is the same on all ranks.
UNISONO_API void set_call_comparison(bool on) noexcept;

/// Tells whether calls are compared.
UNISONO_API bool call_comparison() noexcept;

/// Switches the recording of calls on or off in this process, which is done only to measure what it
/// costs.
UNISONO_API void set_call_recording(bool on) noexcept;

/// Sets how long ranks may still come after two ranks of a call were seen to differ, so that the
/// error names those who differ from most. It is 500 ms, unless a test needs to be sure.
UNISONO_API void set_ballot_time(std::chrono::milliseconds time) noexcept;

/// Returns that time.
UNISONO_API std::chrono::milliseconds ballot_time() noexcept;

/// Sets how long a peer that somebody waits for may be stopped (SIGSTOP, a debugger) before it
/// counts as failed. It is 30 s, unless a test has less patience.
UNISONO_API void set_silence_limit(std::chrono::milliseconds limit) noexcept;

/// Returns that time.
UNISONO_API std::chrono::milliseconds silence_limit() noexcept;

/// Lets ranks that share a machine present themselves as processes of these hosts, a name for each
/// rank, for tests.
///
/// It counts from the next initialize or run_threads on and is the same on all ranks; empty for the
/// hosts as they are. InvalidArgument is thrown there if the names are not as many as the ranks.
UNISONO_API void set_presented_hosts(std::vector<std::string> names);

/// Returns these names.
UNISONO_API std::vector<std::string> presented_hosts();

}  // namespace unisono::detail
