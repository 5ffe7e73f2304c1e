#pragma once

#include <memory>

#include "engines/shm/lockstep.h"

namespace unisono::engines::shm {

/// A task for any collective of backend.h. The task keeps its own copy of the call.
std::unique_ptr<Task> make_collective(Lockstep& engine, const CollectiveCall& call);

/// The same on the caller's stack, without an allocation: builds the task and hands it to `drive`. `call` must outlive it.
void with_collective(Lockstep& engine, const CollectiveCall& call, Waiter& waiter);

}  // namespace unisono::engines::shm
