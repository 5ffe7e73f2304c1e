#pragma once

#include <optional>
#include <string>

#include "base/environment.h"
#include "base/socket.h"
#include "doctor/finding.h"

// What can be wrong with the names and interfaces of a host.
namespace unisono::tools {

/// Whether ranks of other hosts take part.
enum class Reach { this_host, several_hosts };

/// Returns the address at which the ranks of this host would be reached, as rendezvous chooses it; empty where there is none.
std::string address_of_ranks(const base::Environment& environment, const std::optional<base::SocketAddress>& route);

/// Looks at that address, at the names that the environment and the system give this host, and at the variables that choose.
Findings check_network(const base::Environment& environment, const std::optional<base::SocketAddress>& route, Reach reach);

/// Returns the interface that has the address; empty: none has.
std::string interface_of(const std::string& address);
/// Returns the interface's largest packet; 0 where it is unknown.
int mtu_of(const std::string& interface);

}  // namespace unisono::tools
