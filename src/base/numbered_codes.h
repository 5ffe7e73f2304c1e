#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/secret.h"
#include "base/sip_hash.h"

namespace unisono::base {

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
