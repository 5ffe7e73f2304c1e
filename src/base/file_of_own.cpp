#include "base/file_of_own.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace unisono::base {

int open_to_write(const char* path, mode_t mode, int more_flags) noexcept {
  ::unlink(path);
  return ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | more_flags, mode);
}

bool write_all(int fd, const char* data, std::size_t bytes) noexcept {
  while (bytes != 0) {
    const ssize_t written = ::write(fd, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;
    if (written <= 0) return false;
    data += written;
    bytes -= static_cast<std::size_t>(written);
  }
  return true;
}

FileDescriptor open_to_read(const std::string& path) noexcept {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat about {};
  if (file && (::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode))) file.reset();
  return file;
}

}  // namespace unisono::base
