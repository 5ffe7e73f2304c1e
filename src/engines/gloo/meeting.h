#pragma once

#include <gloo/rendezvous/context.h>

#include <memory>

#include "engines/gloo/mesh.h"
#include "unisono/engine.h"

namespace unisono::engines {

/// A group's Gloo context, connected: every rank listens on its address, the addresses go through the group's store, and each connection is checked
/// to come from a member. The mesh is the same object as the context's transport.
struct Meeting {
  std::shared_ptr<gloo::Context> context;
  std::shared_ptr<Mesh> mesh;
};

/// Connects the group; collective. Throws Timeout where a member does not come, BackendUnavailable where Gloo cannot use the address or connect,
/// ProtocolError where a stranger is at the other end.
Meeting meet(const EngineOptions& options);

/// Returns the text of an exception of Gloo, without the place in its source.
std::string text_of(const std::exception& error);

}  // namespace unisono::engines
