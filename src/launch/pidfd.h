#pragma once

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>

#include "base/file_descriptor.h"

namespace unisono::launcher {

// The C library declares these two without extern "C" in its 2.36, so the kernel is asked directly.

/// Readable when the process has ended. Invalid, with errno, where there is no such process.
inline base::FileDescriptor open_pidfd(pid_t pid) { return base::FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

/// Hits this process or nobody.
inline void signal_pidfd(const base::FileDescriptor& pidfd, int signal) noexcept {
  ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0);
}

}  // namespace unisono::launcher
