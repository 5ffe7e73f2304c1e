#pragma once

#include <vector>

#include "status/jobs.h"

namespace unisono::tools {

/// Adds the ranks of other hosts, of the jobs whose launchers on this host tell of them. Launchers are asked, ranks are not.
void add_other_hosts(std::vector<JobFacts>& jobs);
/// Adds the ranks of one job, as its launcher tells of them. Of a rank that is there already the own record stays.
void add_hosts(std::vector<JobFacts>& jobs, const std::vector<launcher::JobSeen>& hosts);

}  // namespace unisono::tools
