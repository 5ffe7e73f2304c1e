#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/view/job_view.h"

// The texts by which launchers tell each other, and `unisono status`, of their ranks.

namespace unisono::launcher {

/// Encodes what is seen of a job's ranks on a host. Of each rank's calls only the one that it shows is kept. Times travel as ages, because the clocks
/// of hosts differ.
std::string encode(const JobSeen& seen);
/// Returns nothing for bytes that are none. The times are those of this process's clock.
std::optional<JobSeen> decode_job(std::string_view bytes);

/// Several of them: of all hosts of a job.
std::string encode(const std::vector<JobSeen>& hosts);
std::optional<std::vector<JobSeen>> decode_hosts(std::string_view bytes);

}  // namespace unisono::launcher
