#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "transport/tcp/link.h"
#include "transport/tcp/watch_tree.h"

namespace unisono::transport {

/// Learns where all ranks listen, by the tree; collective. Each rank tells its parent the addresses of all ranks below it, and the first rank sends
/// the list down again. A rank receives the list once, whatever their number. `addresses` has this rank's own; `notify` sends a notice to a neighbour
/// in the tree. Throws Timeout and PeerFailed.
std::vector<std::string> exchange_addresses(Link& link, const Link::Options& options, const WatchTree& tree, std::vector<std::string> addresses,
                                            const base::Deadline& deadline,
                                            const std::function<void(int rank, std::uint64_t group, std::string_view text)>& notify);

}  // namespace unisono::transport
