#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "base/file_descriptor.h"

// Files whose names others can guess, in folders that others may write to.

namespace unisono::base {

/// Makes a file and opens it to write. What had the name before goes, and nothing is written into it or through it: a link, a pipe, a file that has
/// another name as well. Returns -1 and sets errno where that cannot be. A handler of a signal may call it.
int open_to_write(const char* path, mode_t mode, int more_flags = 0) noexcept;
/// Writes all of it. Returns false and sets errno where it does not. A handler of a signal may call it.
bool write_all(int fd, const char* data, std::size_t bytes) noexcept;

/// Opens a file that somebody else may have put there, to read it. Only a regular file is opened, and not through a link; empty otherwise.
FileDescriptor open_to_read(const std::string& path) noexcept;

}  // namespace unisono::base
