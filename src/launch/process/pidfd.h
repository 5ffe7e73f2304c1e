#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/file_descriptor.h"
#include "launch/process/program.h"

namespace unisono::launcher {

// The C library 2.36 declares these two without extern "C", so the system calls are made directly.

/// Returns a descriptor that is readable when the process has ended; invalid, with errno, where there is no such process.
inline base::FileDescriptor open_pidfd(pid_t pid) { return base::FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

/// Signals this process and never another that has got its number.
inline void signal_pidfd(const base::FileDescriptor& pidfd, int signal) noexcept {
  ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0);
}

/// Waits for the end of a child, whose number is free then.
inline void reap(pid_t pid, int options = 0) noexcept {
  while (::waitpid(pid, nullptr, options) < 0 && errno == EINTR) {
  }
}

/// Both ends of a pipe, which no program inherits. Throws StartFailed.
struct Pipe {
  base::FileDescriptor reading, writing;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw StartFailed("cannot make a pipe: " + error_text(errno), 1);
    reading.reset(ends[0]);
    writing.reset(ends[1]);
  }
};

}  // namespace unisono::launcher
