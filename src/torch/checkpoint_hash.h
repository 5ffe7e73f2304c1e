#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace unisono::libtorch {

/// Computes xxHash64 (Y. Collet's specification, version 0.1.1) over bytes given in pieces. It detects damaged files, not forged ones.
class Hash {
 public:
  void add(std::span<const std::byte> bytes) {
    length_ += bytes.size();
    if (in_rest_ > 0) {
      const std::size_t n = std::min(bytes.size(), rest_.size() - in_rest_);
      std::copy_n(bytes.begin(), n, rest_.begin() + static_cast<std::ptrdiff_t>(in_rest_));
      in_rest_ += n;
      bytes = bytes.subspan(n);
      if (in_rest_ < rest_.size()) return;
      stripe(rest_.data());
      in_rest_ = 0;
    }
    for (; bytes.size() >= rest_.size(); bytes = bytes.subspan(rest_.size())) stripe(bytes.data());
    std::ranges::copy(bytes, rest_.begin());
    in_rest_ = bytes.size();
  }

  std::uint64_t value() const {
    std::uint64_t hash = prime5;
    if (length_ >= rest_.size()) {
      hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) + std::rotl(lanes_[3], 18);
      for (const std::uint64_t lane : lanes_) hash = merge(hash, lane);
    }
    hash += length_;
    std::size_t i = 0;
    for (; i + 8 <= in_rest_; i += 8) hash = std::rotl(hash ^ round(0, load<std::uint64_t>(&rest_[i])), 27) * prime1 + prime4;
    if (i + 4 <= in_rest_) {
      hash = std::rotl(hash ^ (load<std::uint32_t>(&rest_[i]) * prime1), 23) * prime2 + prime3;
      i += 4;
    }
    for (; i < in_rest_; ++i) hash = std::rotl(hash ^ (static_cast<std::uint64_t>(rest_[i]) * prime5), 11) * prime1;
    hash = (hash ^ (hash >> 33)) * prime2;
    hash = (hash ^ (hash >> 29)) * prime3;
    return hash ^ (hash >> 32);
  }

 private:
  static constexpr std::uint64_t prime1 = 0x9E3779B185EBCA87, prime2 = 0xC2B2AE3D27D4EB4F, prime3 = 0x165667B19E3779F9, prime4 = 0x85EBCA77C2B2AE63,
                                 prime5 = 0x27D4EB2F165667C5;
  // The files are little-endian, as are all supported processors.
  static_assert(std::endian::native == std::endian::little);

  template <class T>
  static T load(const std::byte* bytes) {
    T x;
    std::memcpy(&x, bytes, sizeof x);
    return x;
  }
  static std::uint64_t round(std::uint64_t lane, std::uint64_t input) { return std::rotl(lane + input * prime2, 31) * prime1; }
  static std::uint64_t merge(std::uint64_t hash, std::uint64_t lane) { return (hash ^ round(0, lane)) * prime1 + prime4; }
  void stripe(const std::byte* bytes) {
    for (std::size_t i = 0; i < lanes_.size(); ++i) lanes_[i] = round(lanes_[i], load<std::uint64_t>(bytes + 8 * i));
  }

  std::array<std::uint64_t, 4> lanes_ = {prime1 + prime2, prime2, 0, 0 - prime1};
  std::array<std::byte, 32> rest_ = {};
  std::size_t in_rest_ = 0;
  std::uint64_t length_ = 0;
};

inline std::uint64_t hash_of(std::span<const std::byte> bytes) {
  Hash hash;
  hash.add(bytes);
  return hash.value();
}

}  // namespace unisono::libtorch
