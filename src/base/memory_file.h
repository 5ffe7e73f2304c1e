#pragma once

#include <cstddef>

#include "base/socket.h"

namespace unisono::base {

/// A memory file of that size, sealed: nobody can shrink it under a reader. Or the errno of what refused.
Opened make_memory_file(const char* name, std::size_t bytes);

}  // namespace unisono::base
