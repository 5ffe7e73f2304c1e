#pragma once

#include <functional>
#include <vector>

#include "status/jobs.h"

namespace unisono::tools {

/// Shows the jobs on the terminal that is standard output, and again each second, until none is left.
void watch(std::vector<JobFacts> jobs, const std::function<std::vector<JobFacts>()>& look);

}  // namespace unisono::tools
