#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "trace/job_trace.h"

namespace unisono::tools {

/// A trace that torch.profiler has written of a rank (export_chrome_trace), to be shown beside ours.
struct ProfilerFile {
  int rank = -1;  ///< where the process was replaced, that of the last one in its place
  std::string path;
};

/// Returns what "RANK=FILE" says. Throws InvalidArgument for anything else.
ProfilerFile parse_profiler_file(const std::string& text);

/// A range of a profiler, in nanoseconds since the trace's beginning.
struct ProfilerRange {
  std::uint64_t begin = 0, end = 0;
  std::string name, category;
  std::string thread;  ///< its process and thread, as the profiler names them
  const nlohmann::json* event = nullptr;
};

/// Visits the complete events ("ph": "X") of such a file that overlap the trace, one at a time: the file may be large. Its times are microseconds
/// since `baseTimeNanoseconds`, or since 1970 where it has none, on the clock of the day (Kineto, from PyTorch 2.4 on and before). They are set on
/// the rank's clock by the moment at which its trace began. Throws InvalidArgument where the file is none of this kind.
void each_range(const ProfilerFile& file, const JobTrace& trace, const std::function<void(const ProfilerRange&)>& visit);

}  // namespace unisono::tools
