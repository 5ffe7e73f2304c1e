#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/merge.h"
#include "trace/profiler.h"
#include "trace/totals.h"

namespace unisono::tools {

/// Calls that a page shows; of more than these the shortest ones are left out, which it says.
inline constexpr std::uint64_t most_calls_of_page = 1'000'000;

/// Writes the trace as a page for a browser: a timeline and totals, in one file that needs no other one.
void write_page(const JobTrace& trace, const Merge& merge, const Totals& totals, const std::vector<ProfilerFile>& profiles, const std::string& path,
                std::uint64_t most_calls = most_calls_of_page);

/// Writes the trace in the format of Chrome's trace events, which ui.perfetto.dev opens: a process for each rank, a slice for each call, arrows from
/// those who were waited for, and the ranges of profilers as threads of their own.
void write_chrome_trace(const JobTrace& trace, const Merge& merge, const std::vector<ProfilerFile>& profiles, const std::string& path);

}  // namespace unisono::tools
