#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/numbered_codes.h"
#include "store/wire.h"

namespace unisono::store {

// The frames of a connection whose two ends have proved to each other that they know the token, and which TLS does not protect: a length (4 bytes),
// its code, the content, its code (8 bytes each, SipHash-2-4). The codes of a direction are numbered. The length has a code of its own, because it is
// believed before the content has come.

/// Seals the frames of one direction, in the order in which they are sent.
class FrameSealer {
 public:
  explicit FrameSealer(base::Secret key) : codes_(std::move(key)) {}
  /// Puts the codes into a frame of Writer::finish.
  std::string seal(std::string frame);
  /// Tells that nothing of the frame that was sealed last has been sent.
  void take_back() { number_ -= 2; }

 private:
  base::NumberedCodes codes_;
  std::uint64_t number_ = 0;
};

/// Takes the frames of one direction, and hands out none that is not the next one that its sender has sent.
class FrameOpener {
 public:
  enum class Fault { none, too_long, changed };
  explicit FrameOpener(base::Secret key) : codes_(std::move(key)) {}
  /// Returns the content of the next frame if it has arrived; `fault` says what is wrong with what has arrived, for good.
  std::optional<std::string> take(FrameBuffer& in, std::size_t most, Fault& fault);

 private:
  base::NumberedCodes codes_;
  std::uint64_t number_ = 0;
};

}  // namespace unisono::store
