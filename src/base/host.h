#pragma once

#include <string>

namespace unisono::base {

/// The system's name for this host.
std::string host_name();
/// The same for all processes that can share memory and see each other: those of one running kernel, and there of the same network and the same
/// process numbers, which containers share or do not. Another for every other machine, and after a reboot. At most 64 bytes.
const std::string& machine_id();

}  // namespace unisono::base
