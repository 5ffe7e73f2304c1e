#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace unisono::base {

/// Encodes integers as bytes, little-endian on every machine. Everything that travels or lies in a file uses this codec.
template <std::integral T>
void store_little_endian(T value, void* to) noexcept {
  const auto number = static_cast<std::uint64_t>(value);
  for (std::size_t i = 0; i < sizeof(T); ++i) static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(number >> (8 * i));
}
template <std::integral T>
T load_little_endian(const void* from) noexcept {
  std::uint64_t number = 0;
  for (std::size_t i = sizeof(T); i-- > 0;) number = number << 8 | static_cast<const unsigned char*>(from)[i];
  return static_cast<T>(number);
}

/// Builds a sequence of bytes. A text is preceded by its length (4 bytes).
class ByteWriter {
 public:
  template <std::integral T>
  ByteWriter& put(T value) {
    char bytes[sizeof(T)];
    store_little_endian(value, bytes);
    bytes_.append(bytes, sizeof bytes);
    return *this;
  }
  ByteWriter& text(std::string_view value) {
    put(static_cast<std::uint32_t>(value.size()));
    return raw(value);
  }
  /// Appends the bytes as they are, without a length.
  ByteWriter& raw(std::string_view value) {
    bytes_.append(value);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads a sequence of bytes from its start. It never reads past the end and never allocates by a length that it has not checked. A read that fails
/// returns nothing, as do all later ones, and `ok()` is false.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <std::integral T>
  T get() {
    const std::string_view bytes = raw(sizeof(T));
    return bytes.empty() ? T{} : load_little_endian<T>(bytes.data());
  }
  std::string_view text() { return raw(get<std::uint32_t>()); }
  /// Reads bytes as they are, without a length.
  std::string_view raw(std::size_t n) {
    if (!ok_ || n > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return taken;
  }
  /// Returns all that has not been read yet.
  std::string_view rest() const { return rest_; }
  bool ok() const { return ok_; }
  /// Returns true where everything was read and nothing was missing.
  bool complete() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace unisono::base
