#pragma once

#include <cstddef>

namespace unisono::base {

/// Returns the bytes of a core's second-level cache, or a usual size where the system does not say.
std::size_t second_level_cache();

/// Returns the bytes of the third-level cache, or 0 where the system does not say. Virtual machines may report one that they share with others, or a
/// wrong size, so nothing may depend on it alone.
std::size_t third_level_cache();

}  // namespace unisono::base
