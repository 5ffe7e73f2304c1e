#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/socket.h"

namespace unisono::rendezvous {

/// Returns the numeric address by which the other ranks reach this one, by the first of these that applies: UNISONO_INTERFACE; loopback where all
/// ranks share one network stack; GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME; the address from which the job's store is reached (`route`; empty: the
/// store is not on TCP), which is known to work; the system's routes. Throws InvalidArgument where a variable names no interface of this host, or
/// there is no address.
std::string own_address(const base::Environment& environment, const std::optional<base::SocketAddress>& route, bool one_network);

/// Throws InvalidArgument where an interface variable has chosen this address of this host, a loopback address, and ranks of other hosts are to reach
/// it.
void check_for_other_hosts(const std::string& address, const base::Environment& environment);

/// Returns the addresses of `host` to listen on. A name may stand for several addresses of this host, or for one that the others do not see: then
/// UNISONO_INTERFACE and the like choose. A numeric address is taken as it is. Throws InvalidArgument where they choose a loopback address, and the
/// name stands for others.
std::vector<base::SocketAddress> addresses_to_listen_on(const std::string& host, const std::vector<base::SocketAddress>& resolved,
                                                        const base::Environment& environment);

/// Throws InvalidArgument where ranks of other hosts are expected and the name stands for loopback addresses alone (as Debian's own host name does).
/// A numeric address and localhost are taken as intended.
void check_reachable(const std::string& host, const std::vector<base::SocketAddress>& resolved);

}  // namespace unisono::rendezvous
