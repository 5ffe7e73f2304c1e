#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace unisono::libtorch {

/// Computes xxHash64 (Y. Collet's specification, version 0.1.1) over bytes given in pieces. It detects damaged files, not forged ones.
class Hash {
 public:
  void add(std::span<const std::byte> bytes);
  std::uint64_t value() const;

 private:
  void stripe(const std::byte* bytes);

  static constexpr std::uint64_t p1 = 0x9E3779B185EBCA87, p2 = 0xC2B2AE3D27D4EB4F;
  std::array<std::uint64_t, 4> lanes_ = {p1 + p2, p2, 0, 0 - p1};
  std::array<std::byte, 32> rest_ = {};
  std::size_t in_rest_ = 0;
  std::uint64_t length_ = 0;
};

std::uint64_t hash_of(std::span<const std::byte> bytes);

}  // namespace unisono::libtorch
