#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/socket.h"
#include "common/json.h"

// What can be wrong on one host, whatever the others are like, and with its names and interfaces.
namespace unisono::tools {

/// Something that keeps a job from running, or may surprise its user.
struct Finding {
  enum class Kind { wrong, remark };
  Kind kind = Kind::wrong;
  std::string about = {};   ///< "interface", "name", "port", …: one word for programs
  std::string text = {};    ///< what is so
  std::string advice = {};  ///< what to do
  std::string host = {};    ///< where; of two hosts "a to b"
};

using Findings = std::vector<Finding>;

void to_json(Json& json, const Finding& finding);
void from_json(const Json& json, Finding& finding);

/// Whether ranks of other hosts take part.
enum class Reach { this_host, several_hosts };

/// Returns what one host has to say: "name", "version", "address", "mtu", "findings", …. `ranks`: as many as it is to run.
Json inspect_host(const base::Environment& environment, const std::optional<base::SocketAddress>& route, Reach reach, int ranks);
/// Takes the findings out of what inspect_host has returned.
Findings take_findings(Json& facts, const std::string& host);

}  // namespace unisono::tools
