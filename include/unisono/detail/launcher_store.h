#pragma once

#include <memory>
#include <string>

#include "unisono/detail/standard.h"
#include "unisono/export.h"
#include "unisono/store.h"

namespace unisono::detail {

/// Returns the part `place` of the store of the `unisono run` that has started this process as that
/// rank of that many; null if none has. The processes of the job alone reach it: those of one host by
/// descriptors that they inherit, those of several hosts by the job's token. It outlives every rank.
/// Throws Timeout and PeerFailed if the launcher does not answer.
UNISONO_API std::shared_ptr<Store> launcher_store(int rank, int world_size, const std::string& place, std::chrono::milliseconds timeout);

}  // namespace unisono::detail
