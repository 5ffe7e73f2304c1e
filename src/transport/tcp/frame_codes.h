#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/numbered_codes.h"
#include "transport/tcp/frame.h"

namespace unisono::transport {

/// The authentication codes of the frames of one direction of a connection. A code covers the frame's number in its direction, its head, and the
/// words between the libraries in its payload (covered_bytes), so that nobody on the way can change, repeat, leave out, reorder or invent one. The
/// payload of messages it does not cover: their content is the ranks' own, and whoever wants that kept as well encrypts the connection.
class FrameCodes {
 public:
  FrameCodes() = default;  ///< of no connection
  /// `key`: 16 bytes that only the two ranks know (Handshake::keys).
  explicit FrameCodes(base::Secret key) : codes_(std::move(key)) {}

  /// Begins the code of the next frame with its head. The payload follows where the code covers it.
  base::SipHash begin(const FrameBytes& head) {
    base::SipHash hash = codes_.begin(number_++);
    hash.bytes(std::span(head).first(coded_head_size));
    return hash;
  }
  /// Writes the code of the next frame into its head.
  void seal(FrameBytes& head, FrameKind kind, std::span<const std::byte> payload, std::span<const std::byte> more = {}) {
    base::SipHash hash = begin(head);
    const std::size_t covered = covered_bytes(kind, payload.size() + more.size()), of_first = std::min(covered, payload.size());
    hash.bytes(payload.first(of_first));
    hash.bytes(more.first(covered - of_first));
    base::store_little_endian(hash.finish(), head.data() + coded_head_size);
  }

 private:
  base::NumberedCodes codes_;
  std::uint64_t number_ = 0;
};

}  // namespace unisono::transport
