#pragma once

#include <memory>

#include "unisono/engine.h"

namespace unisono::engines::ucx {

/// Makes the engine over UCX: channels between any two ranks, from which everything else is composed. Collective: the ranks give each other the
/// addresses of their workers through `options.store`. Throws BackendUnavailable where UCX is missing or finds no way to a peer, Timeout where a rank
/// does not come.
std::unique_ptr<Engine> make_engine(const EngineOptions& options);

}  // namespace unisono::engines::ucx
