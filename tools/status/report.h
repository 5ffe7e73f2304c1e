#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/text.h"
#include "status/jobs.h"

namespace unisono::tools {

/// Returns what is to be known of a job: who is late, and a line for each rank. Sentences take as many columns; the lines of ranks take more where
/// there are few.
std::string status_text(const JobFacts& job, std::size_t columns = screen_columns);
/// Returns the last calls of each rank.
std::string dump_text(const JobFacts& job);
/// Returns what a late rank does.
std::string stack_text(const Stack& stack);
/// Returns all of that as JSON. `stacks` belong to the jobs, in their order; the calls with `with_calls` only.
std::string status_json(const std::vector<JobFacts>& jobs, const std::vector<std::vector<Stack>>& stacks, bool with_calls);

/// Returns what has a terminal show the jobs: no more lines than it has rows, none of which is too long for one row.
std::string screen_text(const std::vector<JobFacts>& jobs, int terminal);

/// Shows the jobs on the terminal that is standard output, and again each second, until none is left.
void watch(std::vector<JobFacts> jobs, const std::function<std::vector<JobFacts>()>& look);

}  // namespace unisono::tools
