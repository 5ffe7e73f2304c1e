#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/file_descriptor.h"
#include "launch/process/program.h"

namespace unisono::tools {

/// Both ends of a pipe, which no started program inherits. Throws StartFailed.
struct Pipe {
  base::FileDescriptor reading, writing;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw launcher::StartFailed("cannot make a pipe: " + launcher::error_text(errno), 1);
    reading.reset(ends[0]);
    writing.reset(ends[1]);
  }
};

}  // namespace unisono::tools
