#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/view/job_view.h"
#include "launch/view/rank_facts.h"

namespace unisono::tools {

using launcher::ProcessFacts;
using launcher::RankFacts;

/// The ranks of a job that can be seen, by rank.
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

/// Adds the ranks of other hosts, of the jobs whose launchers on this host tell of them. Launchers are asked, ranks are not.
void add_other_hosts(std::vector<JobFacts>& jobs);
/// What the main thread of a rank's process does.
struct Stack {
  int rank = -1;
  std::string tool;                 ///< that has shown it: "gdb"
  std::vector<std::string> frames;  ///< "#0  pause () from /lib/x86_64-linux-gnu/libc.so.6"
  std::vector<std::string> python;  ///< "step (train.py:12)"
  std::string problem;              ///< why there are no frames
};

/// Looks into the processes of the ranks that others wait for, which stops each of them for a moment: with eu-stack, or gdb, and py-spy.
std::vector<Stack> stacks_of_late_ranks(const JobFacts& job);

}  // namespace unisono::tools
