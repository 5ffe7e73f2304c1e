#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "base/environment.h"
#include "doctor/finding.h"
#include "hosts/host_list.h"

namespace unisono::tools {

/// What was found on several hosts and between them. A cell of a matrix that was not measured is 0.
struct Examination {
  std::vector<std::string> hosts;
  nlohmann::ordered_json facts = nlohmann::ordered_json::array();  ///< by host; null where it cannot be used
  Findings findings;
  std::vector<std::vector<double>> latency_us, mebibytes_per_s;  ///< [from][to]
};

/// Examines the hosts, each by a process that is started there, and measures between each pair of them, several pairs at once.
Examination examine_hosts(const std::vector<HostEntry>& hosts, const std::string& start_command, const std::vector<std::string>& variables,
                          const base::Environment& environment);

/// Returns the findings of inspect_host.
Findings findings_of(const nlohmann::ordered_json& facts, const std::string& host);

}  // namespace unisono::tools
