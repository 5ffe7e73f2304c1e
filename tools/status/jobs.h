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

/// Returns the jobs of this user on this host; those that began last come last.
std::vector<JobFacts> find_jobs();
/// Returns the jobs whose ranks have written their records into this file or folder. Of the attempts of a job, the last one. Throws InvalidArgument
/// where nothing can be read.
std::vector<JobFacts> read_jobs(const std::string& path);
/// Has the shares of processors count from an earlier look on.
void count_cpu_since(const std::vector<JobFacts>& earlier, std::vector<JobFacts>& now);

/// What stands between a job and its next step.
struct Delay {
  std::string text;  ///< "rank 3 has not come to all_reduce #841 of world for 12.1 s: it is in the program, since all_reduce #840 (train.cpp:57)"
  int late = -1;     ///< the rank that is waited for
  std::uint64_t for_ns = 0;  ///< how long the others have waited
};

/// Finds the ranks that others wait for, the longest wait first. Waits below `at_least` are none.
std::vector<Delay> delays_of(const JobFacts& job, std::uint64_t at_least);

/// "12.1 s", "3 min 5 s"
std::string duration_text(std::uint64_t ns);
/// "all_reduce #841 of world"
std::string call_text(const recorder::CallSeen& call);

}  // namespace unisono::tools
