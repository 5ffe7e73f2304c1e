#pragma once

#include <nlohmann/json.hpp>

#include <optional>

#include "base/environment.h"
#include "base/socket.h"
#include "doctor/network_checks.h"

namespace unisono::tools {

/// Returns what one host has to say: "name", "version", "address", "mtu", "findings", ….
nlohmann::ordered_json inspect_host(const base::Environment& environment, const std::optional<base::SocketAddress>& route, Reach reach, int ranks);

/// `unisono __doctor`: answers requests, each a line of JSON on standard input, with a line on standard output, until the input ends.
///   {"do": "inspect", "ranks": 4, "secret": "…"}   looks at this host and listens for the others
///   {"do": "clock"}                                {"clock": seconds since 1970}
///   {"do": "measure", "address": …, "port": …, "secret": …}
int serve_as_doctor();

}  // namespace unisono::tools
