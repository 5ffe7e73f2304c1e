#pragma once

#include <string>

#include "trace/profiler.h"

namespace unisono::tools {

/// Returns a profiler's ranges as the page wants them, as JSON: the outermost ones of the threads in which most time is spent, each in a lane.
std::string page_ranges(const ProfilerFile& file, const JobTrace& trace);

}  // namespace unisono::tools
