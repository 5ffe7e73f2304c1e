#pragma once

#include <string>
#include <vector>

#include "base/environment.h"
#include "doctor/checks.h"
#include "hosts/host_list.h"

namespace unisono::tools {

/// What was found on several hosts and between them. A cell of a matrix that was not measured is 0.
struct Examination {
  std::vector<std::string> hosts;
  Json facts = Json::array();  ///< by host; null where it cannot be used
  Findings findings;
  std::vector<std::vector<double>> latency_us, mebibytes_per_s;  ///< [from][to]
};

/// Examines the hosts, each by a process that is started there, and measures between each pair of them, several pairs at once.
Examination examine_hosts(const std::vector<HostEntry>& hosts, const std::string& start_command, const std::vector<std::string>& variables,
                          const base::Environment& environment);

/// What a host has measured to another one.
struct Probe {
  enum class Outcome {
    fine,
    no_connection,  ///< `why` says the system's reason
    small_only,     ///< a short message comes back, and a long one does not
    silent,         ///< the connection is accepted, and nothing comes back
  };
  Outcome outcome = Outcome::fine;
  std::string why = {};
  double latency_us = 0;       ///< half of the median round trip of 8 bytes
  double mebibytes_per_s = 0;  ///< from here to there
};

/// `unisono __doctor`: answers requests, each a line of JSON on standard input, with a line on standard output, until the input ends.
///   {"do": "inspect", "ranks": 4, "secret": "…"}   looks at this host and listens for the others
///   {"do": "clock"}                                {"clock": seconds since 1970}
///   {"do": "measure", "address": …, "port": …, "secret": …}
int serve_as_doctor();

/// Returns the findings and, of several hosts, the matrices, for people.
std::string text_of(const Examination& examination);
/// Returns the same for programs.
Json json_of(const Examination& examination);
/// Returns a picture of the matrices, in which a slow pair stands out. SVG 1.1.
std::string svg_of(const Examination& examination);

bool is_anything_wrong(const Examination& examination);

}  // namespace unisono::tools
