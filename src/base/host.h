#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace unisono::base {

/// The system's name for this host.
std::string host_name();
/// Identifies the processes that can share memory and see each other: those under one running kernel in the same network and PID namespaces, which
/// containers may or may not share. It changes with a reboot. At most 64 bytes.
const std::string& machine_id();
/// Returns the part of a machine_id() that all processes under one running kernel have: they share its processors.
std::string_view kernel_of(std::string_view machine);
/// Returns the part that all processes in one network namespace have: they share its loopback.
std::string_view network_of(std::string_view machine);
/// Returns the number of this process's namespace of a kind ("net", "pid"); 0 where /proc does not say.
std::uint64_t namespace_number(const std::string& kind);

}  // namespace unisono::base
