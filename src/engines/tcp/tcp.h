#pragma once

#include <memory>

#include "transport/tcp/link.h"
#include "unisono/engine.h"

namespace unisono::engines::tcp {

/// The engine over connections of our own: channels between any two ranks of the group, of which everything else is composed. `link` connects them
/// all (Link::Options::all where several are on one host); null is enough for a group of one.
std::unique_ptr<Engine> make_tcp(const EngineOptions& options, std::shared_ptr<transport::Link> link);

}  // namespace unisono::engines::tcp
