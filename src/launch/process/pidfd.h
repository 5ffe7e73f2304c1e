#pragma once

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>

#include "base/file_descriptor.h"

namespace unisono::launcher {

// The C library 2.36 declares these two without extern "C", so the system calls are made directly.

/// Returns a descriptor that is readable when the process has ended; invalid, with errno, where there is no such process.
inline base::FileDescriptor open_pidfd(pid_t pid) { return base::FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

/// Signals this process and never another that has got its number.
inline void signal_pidfd(const base::FileDescriptor& pidfd, int signal) noexcept {
  ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0);
}

}  // namespace unisono::launcher
