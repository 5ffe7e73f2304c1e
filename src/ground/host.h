#pragma once

#include <string>

namespace unisono::ground {

/// The system's name for this host.
std::string host_name();
/// The same for all processes that share a running kernel and its network, another for every other machine (and after a reboot).
const std::string& machine_id();

}  // namespace unisono::ground
