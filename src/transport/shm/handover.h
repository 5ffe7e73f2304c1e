#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "unisono/store.h"

namespace unisono::transport {

/// Memory that several processes of this host map. It has no name: nothing is left behind, however they end.
struct SharedMemory {
  std::shared_ptr<std::byte> address;  // unmapped with the last copy
  std::size_t bytes = 0;
};

/// By which errors call the ranks, where that is not their number here.
using RankNames = std::vector<int>;

/// Rank 0 of `ranks` processes of one host makes a sealed memfd and hands its descriptor to the others over a local socket (in the abstract
/// namespace: no file), which the others find through `key` in the store. Who connects must be of the same user and know the store's secret.
/// Collective over the ranks. Throws Timeout naming who is missing, BackendUnavailable where the system refuses shared memory, or the descriptors to
/// hand it over with.
SharedMemory share_memory(Store& store, const std::string& key, int rank, int ranks, std::size_t bytes, const base::Deadline& deadline,
                          const RankNames& names = {});

}  // namespace unisono::transport
