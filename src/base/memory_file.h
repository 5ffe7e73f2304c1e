#pragma once

#include <cstddef>

#include "base/socket.h"

namespace unisono::base {

/// Makes a memory file of that size, sealed so that nobody can shrink it under a reader; on failure returns the errno.
Opened make_memory_file(const char* name, std::size_t bytes);

}  // namespace unisono::base
