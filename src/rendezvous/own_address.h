#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/socket.h"

namespace unisono::rendezvous {

/// The numeric address by which the other ranks reach this one: what UNISONO_INTERFACE means; loopback where all ranks share one network
/// stack; what GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME means; the address from which the job's store is reached (`route`; empty: the
/// store is not on TCP), which has shown that it works; the address that the system's routes choose. InvalidArgument where a variable means none of
/// this host's, or there is none.
std::string own_address(const base::Environment& environment, const std::optional<base::SocketAddress>& route, bool one_network);

/// Of the addresses of `host`, those to listen on. A name may mean several of this host's, or not the one that the others see: then
/// UNISONO_INTERFACE and its like say which. A numeric address is taken as it is.
std::vector<base::SocketAddress> addresses_to_listen_on(const std::string& host, const std::vector<base::SocketAddress>& resolved,
                                                        const base::Environment& environment);

/// InvalidArgument where ranks of other hosts are to come, and the name means loopback addresses alone (as Debian's own host name does). One written
/// as a number, or as localhost, is taken for what is meant.
void check_reachable(const std::string& host, const std::vector<base::SocketAddress>& resolved);

}  // namespace unisono::rendezvous
