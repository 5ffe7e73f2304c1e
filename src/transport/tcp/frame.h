#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/eager.h"
#include "base/numbered_codes.h"
#include "base/tls_library.h"

namespace unisono::transport {

// The format of a connection between two ranks after the handshake (handshake.h): frames, each a head of 48 bytes and then `length` bytes. All
// integers are little-endian. A field that a kind does not use is zero. The last 8 bytes of the head are the frame's authentication code
// (FrameCodes).

enum class FrameKind : std::uint8_t {
  eager = 1,  ///< a whole message: group, channel, length
  request,    ///< announces a message: group, channel, id (counts the sender's requests, from 1), total
  clear,      ///< id of a request: its receive has been posted, and all of its data may be sent
  data,       ///< id of a request: its next bytes. Before it is cleared they take room at the receiver, as eager messages do
  withdrawn,  ///< id of a request: its sender has given up
  refused,    ///< id of a request: its receiver does not take it; total: the Refusal
  consumed,   ///< total: bytes of eager messages (cost_of) that were received since the last one, so that there is room again
  notice,     ///< a short text: group, length; channel: so many bytes at its end are the ranks' data
  call,       ///< what a rank says of the next call of a group: group, length
  heartbeat,
  goodbye,  ///< the last frame: the sender finalizes
  spread,   ///< a notice that ranks hand on to those that the sender has no connection with (relay.h): group, length
  gone,     ///< ranks that are lost or have left, as far as the sender has heard of them (relay.h): length
};

enum class Refusal : std::uint64_t { other_length = 1, group_over };

struct FrameHead {
  FrameKind kind = FrameKind::heartbeat;
  std::uint32_t length = 0;
  std::uint64_t group = 0;
  std::uint32_t channel = 0;
  std::uint64_t id = 0;
  std::uint64_t total = 0;
};

inline constexpr std::size_t coded_head_size = 40;  ///< the fields
inline constexpr std::size_t frame_head_size = 48;  ///< and the code
inline constexpr std::size_t longest_notice = std::size_t{64} << 10;
/// A message of a collective that is sent without a matching receive: its receive is posted at once, or has been. With a request it would cost two
/// messages more, and wake its sender once more.
inline constexpr std::size_t longest_eager = std::size_t{256} << 10;
inline constexpr std::size_t longest_spread = std::size_t{128} << 10;
inline constexpr std::size_t longest_data = std::size_t{1} << 20;

/// An eager message takes cost_of(length) of the room at its receiver. The data of a request that is not cleared yet takes its length. The room for
/// one peer is 1 MiB, and the bytes that may not have been reported yet.
inline constexpr std::size_t cost_of(std::size_t length) { return length + frame_head_size; }
inline constexpr std::size_t report_size = std::size_t{256} << 10;
inline constexpr std::size_t eager_room = (std::size_t{1} << 20) + report_size;

/// Data of requests that are not cleared leaves at least the rest of the room to eager messages.
inline constexpr std::size_t early_room = std::size_t{1} << 20;

using FrameBytes = std::array<std::byte, frame_head_size>;
/// Writes the fields; the code is FrameCodes' to write.
FrameBytes to_bytes(const FrameHead& head);
/// A message of a call begins with so many bytes that compare the call; what follows is the ranks' data.
inline constexpr std::size_t call_head_size = 32;
inline constexpr std::size_t longest_call = (std::size_t{128} << 10) + call_head_size;
/// Returns how many bytes of a payload, the first ones, are words between the libraries themselves, and not the ranks' data.
constexpr std::size_t covered_bytes(const FrameHead& head) {
  switch (head.kind) {
    case FrameKind::notice: return head.length - std::min(head.length, head.channel);
    case FrameKind::spread:
    case FrameKind::gone: return head.length;
    case FrameKind::call: return std::min<std::size_t>(head.length, call_head_size);
    default: return 0;
  }
}
/// Throws ProtocolError with the reason unless a peer may send the head. It checks a length before anything is allocated for it.
FrameHead to_head(const std::byte* bytes);

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
  void seal(FrameBytes& bytes, const FrameHead& head, std::span<const std::byte> payload, std::span<const std::byte> more = {}) {
    base::SipHash hash = begin(bytes);
    const std::size_t covered = std::min(covered_bytes(head), payload.size() + more.size()), of_first = std::min(covered, payload.size());
    hash.bytes(payload.first(of_first));
    hash.bytes(more.first(covered - of_first));
    base::store_little_endian(hash.finish(), bytes.data() + coded_head_size);
  }

 private:
  base::NumberedCodes codes_;
  std::uint64_t number_ = 0;
};

/// The two system calls of a connection: a plain socket's, or those of the TLS around it.
struct Connection {
  int fd = -1;
  base::TlsConnection* tls = nullptr;  ///< null: it is not encrypted

  /// recvmsg that does not wait.
  ssize_t receive(const msghdr& message) const {
    if (tls != nullptr) return tls->read(message.msg_iov, message.msg_iovlen);
    return ::recvmsg(fd, const_cast<msghdr*>(&message), MSG_DONTWAIT);
  }
  /// Does the same with what TLS has read from its socket and not given out yet; the socket itself shows nothing of it.
  ssize_t receive_ahead(const msghdr& message) const { return tls->read_ahead(message.msg_iov, message.msg_iovlen); }
  bool has_unread() const { return tls != nullptr && tls->has_unread(); }
  /// sendmsg that neither waits nor raises SIGPIPE.
  ssize_t send(const msghdr& message) const {
    if (tls != nullptr) return tls->write(message.msg_iov, message.msg_iovlen);
    return ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
};

}  // namespace unisono::transport
