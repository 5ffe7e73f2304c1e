#pragma once

#include <string>
#include <vector>

#include "trace/merge.h"
#include "trace/profiler.h"

namespace unisono::tools {

/// Writes the trace in the format of Chrome's trace events, which ui.perfetto.dev opens: a process for each rank, a slice for each call, arrows from
/// those who were waited for, and the ranges of profilers as threads of their own.
void write_chrome_trace(const JobTrace& trace, const Merge& merge, const std::vector<ProfilerFile>& profiles, const std::string& path);

}  // namespace unisono::tools
