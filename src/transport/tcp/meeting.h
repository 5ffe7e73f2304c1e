#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "transport/tcp/connecting.h"
#include "transport/tcp/link.h"
#include "transport/tcp/relay.h"

namespace unisono::transport {

/// Returns the text by which a rank tells the others where it listens: "10.0.0.2 41234".
std::string address_text(const Link::Options& options, const Acceptor& acceptor);
/// Reads such a text. `own`: the address of this rank. Throws ProtocolError, which names the source, if it is none.
base::SocketAddress parse_address(const std::string& text, const std::string& own, std::string_view source);

/// Returns the ranks that a link of these options connects with.
std::vector<int> peers_of(const Link::Options& options);

/// Returns true for a rank that the link's users may send to.
bool is_peer(const Link::Options& options, int rank);

/// Returns true where some rank has more peers than Options::most_eager. All ranks come to the same answer.
bool connects_on_demand(const Link::Options& options);

/// The connections that were made, and what makes more of them.
struct MeetingResult {
  std::map<int, Established> connections = {};
  Caller caller = {};
  std::optional<Acceptor> acceptor = {};  ///< it listens on, where a tree was given
};

/// Connects this rank with all of its peers, or with its neighbours in the tree, if there is one; collective. The lower rank of each pair connects,
/// in a tree the higher one. Each rank listens on exactly the given address, at a port of the system's choice, which the store tells the others,
/// until all are connected. The secret by which ranks know each other is 32 random bytes that rank 0 puts into the store. Strangers learn nothing
/// from it: at most 64 of them are in their handshake at a time, for 2 s each, and the ranks do not wait for them. Where the connections are
/// encrypted, a pre-shared key is derived from that secret, unless certificates are given. Ranks of which some encrypt and others do not learn it
/// from the store: ProtocolError.
MeetingResult meet(const Link::Options& options, const WatchTree* tree = nullptr);

}  // namespace unisono::transport
