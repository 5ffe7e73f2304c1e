#pragma once

#include <memory>

#include "engines/shm/lockstep.h"

namespace unisono::engines::shm {

/// Makes a task for any collective. The task keeps its own copy of the call.
std::unique_ptr<Task> make_collective(Lockstep& engine, const CollectiveCall& call);

}  // namespace unisono::engines::shm
