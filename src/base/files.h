#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstddef>
#include <ctime>
#include <string>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/secret.h"
#include "base/socket.h"

namespace unisono::base {

/// Keeps the kernel from ending the process by a signal that it sends to the calling thread for a call of its own: the call fails instead.
class WithoutSignal {
 public:
  explicit WithoutSignal(int signal) {
    ::sigemptyset(&signal_);
    ::sigaddset(&signal_, signal);
    sigset_t pending;
    was_pending_ = ::sigpending(&pending) == 0 && ::sigismember(&pending, signal) == 1;
    ::pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~WithoutSignal() {
    const timespec at_once{};
    if (!was_pending_) ::sigtimedwait(&signal_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSignal(const WithoutSignal&) = delete;
  WithoutSignal& operator=(const WithoutSignal&) = delete;

 private:
  sigset_t signal_, before_;
  bool was_pending_ = false;
};

/// Makes a write beyond the file size limit (ulimit -f) an error, EFBIG, instead of the end of the process by SIGXFSZ.
struct NoSizeSignal : WithoutSignal {
  NoSizeSignal() : WithoutSignal(SIGXFSZ) {}
};

// Files whose names others can guess, in folders that others may write to.

/// Makes a file and opens it to write. What had the name before goes, and nothing is written into it or through it: a link, a pipe, a file that has
/// another name as well. Returns -1 and sets errno where that cannot be. A handler of a signal may call it.
int open_to_write(const char* path, mode_t mode, int more_flags = 0) noexcept;
/// Writes all of it. Returns false and sets errno where it does not. A handler of a signal may call it.
bool write_all(int fd, const char* data, std::size_t bytes) noexcept;

/// Opens a file that somebody else may have put there, to read it. Only a regular file is opened, and not through a link; empty otherwise.
FileDescriptor open_to_read(const std::string& path) noexcept;

/// Returns the content of a file that holds a secret; `what` names it in messages: "the token file". Throws InvalidArgument, which names the file,
/// where it cannot be read, is longer than `most` bytes, belongs to another user, or can be read or written by anybody else.
Secret read_private_file(std::string_view what, const std::string& path, std::size_t most);
/// Returns the content of a file that everybody may read, under the other conditions.
std::string read_public_file(std::string_view what, const std::string& path, std::size_t most);

/// Makes a memory file of that size, sealed so that nobody can shrink it under a reader; on failure returns the errno.
Opened make_memory_file(const char* name, std::size_t bytes);

}  // namespace unisono::base
