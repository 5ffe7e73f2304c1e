#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "unisono/store.h"

namespace unisono::transport {

/// Memory that several processes of this host map. It has no name, so nothing of it remains, however they end.
struct SharedMemory {
  std::shared_ptr<std::byte> address;  // unmapped with the last copy
  std::size_t bytes = 0;
};

/// The names of the ranks in errors, where these differ from their numbers here.
using RankNames = std::vector<int>;

/// Rank 0 of `ranks` processes of one host makes a sealed memfd and passes its descriptor to the others over a local socket (in the abstract
/// namespace, without a file), which they find through `key` in the store. A process that connects must run as the same user and know the secret in
/// the store. Collective over the ranks. Throws Timeout with the missing ranks, and BackendUnavailable where the system refuses shared memory or
/// descriptors.
SharedMemory share_memory(Store& store, const std::string& key, int rank, int ranks, std::size_t bytes, const base::Deadline& deadline,
                          const RankNames& names = {});

}  // namespace unisono::transport
