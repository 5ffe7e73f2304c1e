#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "transport/tcp/acceptor.h"
#include "transport/tcp/link.h"

namespace unisono::transport {

/// Returns the ranks that a link of these options connects with.
std::vector<int> peers_of(const Link::Options& options);

/// Connects this rank with all of them; collective. The lower rank of each pair connects. Each rank listens on exactly the given address, at a port
/// of the system's choice, which the store tells the others, until all are connected. The secret by which ranks know each other is 32 random bytes
/// that rank 0 puts into the store. Strangers learn nothing from it: at most 64 of them are in their handshake at a time, for 2 s each, and the ranks
/// do not wait for them. Where the connections are encrypted, a pre-shared key is derived from that secret, unless certificates are given. Ranks of
/// which some encrypt and others do not learn it from the store: ProtocolError.
std::map<int, Established> meet(const Link::Options& options);

}  // namespace unisono::transport
