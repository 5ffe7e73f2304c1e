#pragma once

#include <memory>

#include "transport/tcp/link.h"
#include "unisono/engine.h"

namespace unisono::engines::tcp {

/// Makes the engine over our own connections: channels between any two ranks of the group, from which everything else is composed. `link` connects
/// them all (Link::Options::all where several are on one host); null suffices for a group of one.
std::unique_ptr<Engine> make_tcp(const EngineOptions& options, std::shared_ptr<transport::Link> link);

}  // namespace unisono::engines::tcp
