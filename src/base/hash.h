#pragma once

#include <cstdint>
#include <string_view>

namespace unisono::base {

/// FNV-1a (Fowler, Noll, Vo), 64 bits: what ranks compare, or name things by, is the same on all of them, whatever compiler and standard library
/// their programs were built with. No help against somebody who looks for two texts of one hash.
class StableHash {
 public:
  constexpr void add(std::string_view bytes) {
    for (const char c : bytes) step(static_cast<unsigned char>(c));
  }
  constexpr void add(std::uint64_t n) {
    for (int i = 0; i < 8; ++i) step(static_cast<unsigned char>(n >> (8 * i)));
  }
  constexpr std::uint64_t value() const { return hash_; }

 private:
  constexpr void step(unsigned char c) { hash_ = (hash_ ^ c) * 0x100000001b3U; }
  std::uint64_t hash_ = 0xcbf29ce484222325U;
};

constexpr std::uint64_t stable_hash(std::string_view text) {
  StableHash hash;
  hash.add(text);
  return hash.value();
}

}  // namespace unisono::base
