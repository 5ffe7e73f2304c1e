#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/secret.h"

namespace unisono::base {

/// SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012): a code of 64 bits that nobody can compute without the key. OpenSSL
/// has it, too, and takes longer to set it up than the hash itself takes for a short message.
class SipHash {
 public:
  using Key = std::array<std::uint64_t, 2>;

  explicit SipHash(const Key& key)
      : v0_(key[0] ^ 0x736f6d6570736575U), v1_(key[1] ^ 0x646f72616e646f6dU), v2_(key[0] ^ 0x6c7967656e657261U), v3_(key[1] ^ 0x7465646279746573U) {}

  /// Adds a number, as its 8 bytes, where whole words have been added so far.
  void word(std::uint64_t value) {
    v3_ ^= value;
    round();
    round();
    v0_ ^= value;
    size_ += sizeof value;
  }

  /// Adds bytes; a message may come in several parts.
  void bytes(std::span<const std::byte> part) {
    for (; held_ != 0 && !part.empty(); part = part.subspan(1)) hold(part.front());
    for (; part.size() >= sizeof(std::uint64_t); part = part.subspan(sizeof(std::uint64_t))) word(load_little_endian<std::uint64_t>(part.data()));
    for (; !part.empty(); part = part.subspan(1)) hold(part.front());
  }

  /// Returns the code of all that was added. Nothing can be added afterwards.
  std::uint64_t finish() {
    word(tail_ | (size_ + held_) << 56);
    v2_ ^= 0xff;
    for (int i = 0; i < 4; ++i) round();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  void hold(std::byte byte) {
    tail_ |= static_cast<std::uint64_t>(byte) << (8 * held_);
    if (++held_ < sizeof tail_) return;
    word(tail_);
    tail_ = held_ = 0;
  }
  void round() {
    v0_ += v1_, v1_ = std::rotl(v1_, 13) ^ v0_, v0_ = std::rotl(v0_, 32);
    v2_ += v3_, v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ += v3_, v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ += v1_, v1_ = std::rotl(v1_, 17) ^ v2_, v2_ = std::rotl(v2_, 32);
  }

  std::uint64_t v0_, v1_, v2_, v3_;
  std::uint64_t tail_ = 0, held_ = 0;  ///< the bytes that make no whole word yet, and their number
  std::uint64_t size_ = 0;
};

/// The keys of the codes of a connection's frames, one for each direction.
struct FrameKeys {
  Secret sending, receiving;
};

/// The authentication codes of one direction of a connection. Each covers its number, so that nobody on the way can repeat, leave out or reorder what
/// they are of.
class NumberedCodes {
 public:
  static constexpr std::size_t size = sizeof(std::uint64_t);

  NumberedCodes() = default;  ///< of no connection
  /// `key`: at least 16 bytes that only the two ends know.
  explicit NumberedCodes(Secret key) : key_(std::move(key)) {}

  /// Begins the code with that number.
  SipHash begin(std::uint64_t number) const {
    SipHash hash({load(0), load(sizeof(std::uint64_t))});
    hash.word(number);
    return hash;
  }

 private:
  std::uint64_t load(std::size_t at) const {
    return key_.empty() ? 0 : load_little_endian<std::uint64_t>(key_.view().substr(at, sizeof(std::uint64_t)).data());
  }

  Secret key_;
};

}  // namespace unisono::base
