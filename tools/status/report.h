#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "status/jobs.h"

namespace unisono::tools {

/// Returns what is to be known of a job: who is late, and a line for each rank.
std::string status_text(const JobFacts& job, std::uint64_t now);
/// Returns the last calls of each rank.
std::string dump_text(const JobFacts& job, std::uint64_t now);
/// Returns all of that as JSON; the calls with `with_calls` only.
std::string status_json(const std::vector<JobFacts>& jobs, std::uint64_t now, bool with_calls);

}  // namespace unisono::tools
