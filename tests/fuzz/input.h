#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/file_descriptor.h"

// A target is a file of this folder with `check_input`. Clang's libFuzzer or AFL++ calls it with inputs that they make up, and replay.cpp with those
// that were kept. It ends the process where the invariant at the beginning of the file does not hold; sanitizers do so for the rest.
namespace unisono::fuzz {

/// Takes an input apart into numbers, choices and texts. A target that builds a message out of them gets behind checksums and codes, at which random
/// bytes fail. Behind the end of the input every number is 0, and every text is empty.
class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}

  template <std::integral T>
  T number() {
    char bytes[sizeof(T)] = {};
    const std::string_view taken = take(sizeof(T));
    taken.copy(bytes, sizeof(T));
    return base::load_little_endian<T>(bytes);
  }
  /// Returns a number from 0 to `most`, 255 at most, out of one byte.
  std::size_t choice(std::size_t most) { return number<std::uint8_t>() % (most + 1); }
  bool flag() { return (number<std::uint8_t>() & 1) != 0; }
  /// Returns a text with its length in front, in one byte.
  std::string text(std::size_t most = UINT8_MAX) { return std::string(take(std::min<std::size_t>(number<std::uint8_t>(), most))); }
  std::string_view rest() { return take(rest_.size()); }
  std::size_t left() const { return rest_.size(); }
  bool has_more() const { return !rest_.empty(); }

 private:
  std::string_view take(std::size_t n) {
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest_;
};

/// Ends the process, which is a finding, unless it is so.
inline void require(bool is_so, const char* what) {
  if (is_so) return;
  std::fprintf(stderr, "the invariant does not hold: %s\n", what);
  std::abort();
}

/// Calls something that may refuse its input by an exception of this type. Any other one is a finding.
template <class Refusal, class Call>
bool refuses(Call&& call) {
  try {
    call();
    return false;
  } catch (const Refusal&) {
    return true;
  }
}

/// A file that lies in memory, for decoders that read files.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(fd_.valid(), "there is a file in memory");
    require(::write(fd_.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size()), "the file takes the input");
  }
  const base::FileDescriptor& fd() const { return fd_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  base::FileDescriptor fd_;
};

/// The target of this program: takes one input.
void check_input(std::string_view bytes);

}  // namespace unisono::fuzz
