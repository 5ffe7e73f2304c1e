#pragma once

#include <cstddef>

namespace unisono::base {

/// Returns the bytes of a core's second-level cache, or a usual size where the system does not say. The last level is no measure, since virtual
/// machines report wrong sizes of it.
std::size_t second_level_cache();

}  // namespace unisono::base
