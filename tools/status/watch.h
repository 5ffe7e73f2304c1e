#pragma once

#include <functional>
#include <string>
#include <vector>

#include "status/jobs.h"

namespace unisono::tools {

/// Returns what has a terminal show the jobs: no more lines than it has rows, none of which is too long for one row.
std::string screen_text(const std::vector<JobFacts>& jobs, int terminal);

/// Shows the jobs on the terminal that is standard output, and again each second, until none is left.
void watch(std::vector<JobFacts> jobs, const std::function<std::vector<JobFacts>()>& look);

}  // namespace unisono::tools
