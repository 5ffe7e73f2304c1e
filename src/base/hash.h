#pragma once

#include <cstdint>
#include <string_view>

namespace unisono::base {

/// FNV-1a (Fowler, Noll, Vo), 64 bits. Ranks compare and name things by this hash, so it is the same for every compiler and standard library. It is
/// no protection against texts that were chosen to collide.
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
  constexpr void step(unsigned char c) { hash_ = (hash_ ^ c) * fnv_prime; }

  static constexpr std::uint64_t fnv_prime = 0x100000001b3U, fnv_offset_basis = 0xcbf29ce484222325U;

  std::uint64_t hash_ = fnv_offset_basis;
};

constexpr std::uint64_t stable_hash(std::string_view text) {
  StableHash hash;
  hash.add(text);
  return hash.value();
}

}  // namespace unisono::base
