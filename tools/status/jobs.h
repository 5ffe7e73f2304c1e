#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recorder/reader.h"

namespace unisono::tools {

/// What the system says of a rank's process.
struct ProcessFacts {
  bool lives = false;
  bool is_stopped = false;
  double cpu_seconds = 0;          ///< of all its threads
  double cpu_share = 0;            ///< of one processor: since the rank joined, or since the last look at it
  std::uint64_t memory_bytes = 0;  ///< resident
};

struct RankFacts {
  recorder::RankSeen record;
  ProcessFacts process;
  bool is_trace = false;  ///< from a trace, which outlives its rank's calls
};

/// The ranks of a job that this process can see, by rank.
struct JobFacts {
  std::string name;
  std::string program;
  int size = 0;
  std::vector<RankFacts> ranks;
  std::uint64_t began = 0;   ///< nanoseconds of the steady clock
  std::uint64_t age_ns = 0;  ///< of its oldest rank
  bool is_copy = false;      ///< from files that were written earlier
};

/// Returns what the system says of a process now. `life`: see base::own_life.
ProcessFacts facts_of(int pid, std::int64_t life);
/// Returns the jobs of this user on this host; those that began last come last.
std::vector<JobFacts> find_jobs();
/// Returns the jobs whose ranks have written their records into this file or folder. Of the attempts of a job, the last one. Throws InvalidArgument
/// where nothing can be read.
std::vector<JobFacts> read_jobs(const std::string& path);
/// Has the shares of processors count from an earlier look on.
void count_cpu_since(const std::vector<JobFacts>& earlier, std::vector<JobFacts>& now);

/// "12.1 s", "3 min 5 s"
std::string duration_text(std::uint64_t ns);
/// "all_reduce #841 of world"
std::string call_text(const recorder::CallSeen& call);

}  // namespace unisono::tools
