#pragma once

#include <unistd.h>

#include <utility>

#include "unisono/export.h"

namespace unisono::base {

/// Owns a file descriptor. Exported for the plug-ins.
class UNISONO_API FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~FileDescriptor() { reset(); }

  int get() const noexcept { return fd_; }
  bool valid() const noexcept { return fd_ >= 0; }
  explicit operator bool() const noexcept { return valid(); }
  int release() noexcept {
    leave_to_children(fd_);
    return std::exchange(fd_, -1);
  }
  void reset(int fd = -1) noexcept {
    if (fd_ >= 0) {
      leave_to_children(fd_);
      ::close(fd_);
    }
    fd_ = fd;
  }
  /// Marks a socket whose other end must notice at once when this process dies: in a forked child the descriptor refers to /dev/null instead.
  void keep_from_children() const noexcept;

 private:
  static void leave_to_children(int fd) noexcept;

  int fd_ = -1;
};

}  // namespace unisono::base
