#pragma once

#include <memory>
#include <vector>

#include "backends/spanning/plan.h"
#include "unisono/backend.h"
#include "unisono/engine.h"

namespace unisono::backends {

/// Whether it only moves bytes: then every engine can carry it out.
bool only_moves(Operation operation);

/// A collective that only moves bytes, made of the engine's channels: every byte goes straight from the rank that has it to the rank that gets it,
/// all at once. A large broadcast goes in shares, so that the root sends S and not (P-1) S.
std::unique_ptr<Task> start_exchange(Engine& engine, const CollectiveCall& call, int rank, int size);

/// The same of an engine without channels, as an all_to_all_v; where several ranks get the same bytes, they are copied for each.
CollectiveCall as_all_to_all_v(const CollectiveCall& call, int rank, int size, Scratch& scratch);

}  // namespace unisono::backends
