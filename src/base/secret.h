#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "base/vector_registers.h"

namespace unisono::base {

/// Bytes that nobody else may learn: a token, a password, a key. They lie on pages that hold secrets alone and that the system leaves out of core
/// dumps (MADV_DONTDUMP). Copies share them, and the last one that goes overwrites them. Whoever computes with them takes a `view`; there is no
/// conversion to std::string, whose copies would stay in the memory that the process frees.
class Secret {
 public:
  Secret() = default;
  /// Copies the bytes of a text, which stays as it is.
  template <std::convertible_to<std::string_view> Text>
  Secret(const Text& text) : Secret(copy_of(text)) {}  // NOLINT(google-explicit-constructor): a text may become a secret anywhere
  /// Copies the bytes of a text and overwrites them there.
  static Secret taking(std::string&& text);
  /// Makes a secret of `most` bytes at most where they are to lie: `fill(bytes)` writes them and returns their number.
  template <std::invocable<char*> Fill>
  static Secret filled(std::size_t most, Fill&& fill) {
    Secret made;
    if (most == 0) return made;
    made.bytes_ = allocate(most);
    made.size_ = fill(made.bytes_.get());
    return made;
  }

  /// The view is valid while one of the copies lives.
  std::string_view view() const { return {bytes_.get(), size_}; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  template <std::convertible_to<std::string_view> Text>
  friend bool operator==(const Secret& a, const Text& b) {
    return a.view() == std::string_view(b);
  }
  friend bool operator==(const Secret& a, const Secret& b) { return a.view() == b.view(); }

 private:
  static Secret copy_of(std::string_view text);
  static std::shared_ptr<char> allocate(std::size_t size);

  std::shared_ptr<char> bytes_;
  std::size_t size_ = 0;
};

/// Overwrites a text that held a secret for a moment, with all the memory that it has, and empties it.
inline void wipe(std::string& text) noexcept {
  text.resize(text.capacity());
  ::explicit_bzero(text.data(), text.size());
  text.clear();
  clear_vector_registers();
}
/// Takes bytes off the front of a buffer, and leaves no copy of them in its memory.
void wipe_front(std::string& buffer, std::size_t size) noexcept;
/// Appends to a buffer. Memory that it outgrows is overwritten before it is freed.
void append_wiping(std::string& buffer, std::string_view bytes);

}  // namespace unisono::base
