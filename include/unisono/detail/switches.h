#pragma once

#include <string>
#include <vector>

#include "unisono/detail/standard.h"
#include "unisono/export.h"

namespace unisono::detail {

/// The comparison of calls between ranks (api rule 6), switched off only to measure what it costs. The same on all ranks.
UNISONO_API void set_call_comparison(bool on) noexcept;
UNISONO_API bool call_comparison() noexcept;

/// Once two ranks of a call differ: how long the others may take to come, so that the error names those who differ from most. 500 ms, unless a test
/// needs to be sure.
UNISONO_API void set_ballot_time(std::chrono::milliseconds time) noexcept;
UNISONO_API std::chrono::milliseconds ballot_time() noexcept;

/// How long a peer that one waits for may be stopped (SIGSTOP, a debugger) before it counts as failed: 30 s, unless a test has less patience.
UNISONO_API void set_silence_limit(std::chrono::milliseconds limit) noexcept;
UNISONO_API std::chrono::milliseconds silence_limit() noexcept;

/// For tests: ranks that share a machine present themselves as processes of these hosts, a name for each rank. Counts from the next initialize or
/// run_threads on, and must be the same on all ranks; empty: as they are. InvalidArgument there if the names are not as many as the ranks.
UNISONO_API void set_presented_hosts(std::vector<std::string> names);
UNISONO_API std::vector<std::string> presented_hosts();

}  // namespace unisono::detail
