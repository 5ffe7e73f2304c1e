#pragma once

#include "unisono/process_group.h"

namespace unisono {

/// True on rank 0 of the group.
inline bool is_main_process(const ProcessGroup& group = detail::current_world()) { return group.rank() == 0; }
/// True on rank 0 of the world.
inline bool is_master_process() { return is_main_process(); }

}  // namespace unisono
