#include "base/file_descriptor.h"

#include <fcntl.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace unisono::base {
namespace {

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
