#include "base/files.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include <fmt/format.h>

#include "unisono/error.h"

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

namespace {

enum class Access { own, any };

/// A file to be read, with what messages call it.
struct File {
  std::string_view what;
  const std::string& path;
  FileDescriptor fd = {};

  [[noreturn]] void refuse(std::string_view why, std::string hint = {}) const {
    throw InvalidArgument(fmt::format("{} {} {}", what, path, why), {.hint = std::move(hint)});
  }

  void open(Access access) {
    // O_NONBLOCK keeps a pipe of that name from blocking this process.
    fd.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd) refuse(fmt::format("cannot be read: {}", error_text(errno)));
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) refuse(fmt::format("cannot be read: {}", error_text(errno)));
    if (!S_ISREG(status.st_mode)) refuse("is not a regular file");
    if (access == Access::own && status.st_uid != ::geteuid()) {
      refuse(fmt::format("belongs to user {}, and this process runs as user {}", status.st_uid, ::geteuid()),
             "the secret must be in a file of your own");
    }
    if (access == Access::own && (status.st_mode & 077) != 0) {
      refuse(fmt::format("is open to others (mode {:04o})", status.st_mode & 07777), fmt::format("chmod 600 {}", path));
    }
  }

  /// Reads all of it; `to` has room for one byte more than the file may have.
  std::size_t read(char* to, std::size_t most) const {
    std::size_t size = 0;
    while (size <= most) {
      const ssize_t n = ::read(fd.get(), to + size, most + 1 - size);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) refuse(fmt::format("cannot be read: {}", error_text(errno)));
      if (n == 0) return size;
      size += static_cast<std::size_t>(n);
    }
    refuse(fmt::format("is longer than {} bytes", most));
  }
};

constexpr std::size_t word_bits = 64, word_count = 1024;

/// A bit for each descriptor that children must not have. Larger numbers have no bit.
std::array<std::atomic<std::uint64_t>, word_count> kept{};

std::uint64_t bit_of(int fd) { return std::uint64_t{1} << (static_cast<std::size_t>(fd) % word_bits); }
bool has_bit(int fd) { return fd >= 0 && static_cast<std::size_t>(fd) < word_bits * word_count; }
std::atomic<std::uint64_t>& word_of(int fd) { return kept[static_cast<std::size_t>(fd) / word_bits]; }

// Runs in the child of a process that may have had threads, so it makes system calls only. The number stays in use, so that an owner in the child can
// close it safely.
void replace_kept() {
  const int before = errno;
  int null = -1;
  for (std::size_t word = 0; word < word_count; ++word) {
    const std::uint64_t set = kept[word].exchange(0, std::memory_order_relaxed);
    for (std::size_t bit = 0; bit < word_bits; ++bit) {
      if ((set >> bit & 1) == 0) continue;
      const int fd = static_cast<int>(word * word_bits + bit);
      if (null < 0) null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
      if (null < 0 || ::dup3(null, fd, O_CLOEXEC) < 0) ::close(fd);
    }
  }
  if (null >= 0) ::close(null);
  errno = before;
}

}  // namespace

Secret read_private_file(std::string_view what, const std::string& path, std::size_t most) {
  File file{what, path};
  file.open(Access::own);
  const Secret content = Secret::filled(most + 1, [&](char* to) { return file.read(to, most); });
  return content.view();  // on no more memory than it takes
}

std::string read_public_file(std::string_view what, const std::string& path, std::size_t most) {
  File file{what, path};
  file.open(Access::any);
  std::string content(most + 1, '\0');
  content.resize(file.read(content.data(), most));
  return content;
}

Opened make_memory_file(const char* name, std::size_t bytes) {
  FileDescriptor file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return {.fd = {}, .error = errno};
  const NoSizeSignal no_signal;
  while (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return {.fd = {}, .error = errno};
  }
  ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return {.fd = std::move(file), .error = 0};
}

void FileDescriptor::keep_from_children() const noexcept {
  if (!has_bit(fd_)) return;
  static const int registered = ::pthread_atfork(nullptr, nullptr, replace_kept);
  static_cast<void>(registered);
  word_of(fd_).fetch_or(bit_of(fd_), std::memory_order_relaxed);
}

void FileDescriptor::leave_to_children(int fd) noexcept {
  if (has_bit(fd) && (word_of(fd).load(std::memory_order_relaxed) & bit_of(fd)) != 0) {
    word_of(fd).fetch_and(~bit_of(fd), std::memory_order_relaxed);
  }
}

}  // namespace unisono::base
