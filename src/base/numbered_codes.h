#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/sip_hash.h"

namespace unisono::base {

/// The keys of the codes of a connection's frames, one for each direction.
struct FrameKeys {
  std::string sending, receiving;
};

/// The authentication codes of one direction of a connection. Each covers its number, so that nobody on the way can repeat, leave out or reorder what
/// they are of.
class NumberedCodes {
 public:
  static constexpr std::size_t size = sizeof(std::uint64_t);

  NumberedCodes() = default;  ///< of no connection
  /// `key`: at least 16 bytes that only the two ends know.
  explicit NumberedCodes(std::string_view key) : key_{load(key, 0), load(key, sizeof(std::uint64_t))} {}

  /// Begins the code with that number.
  SipHash begin(std::uint64_t number) const {
    SipHash hash(key_);
    hash.word(number);
    return hash;
  }

 private:
  static std::uint64_t load(std::string_view key, std::size_t at) {
    return load_little_endian<std::uint64_t>(key.substr(at, sizeof(std::uint64_t)).data());
  }

  SipHash::Key key_{};
};

}  // namespace unisono::base
