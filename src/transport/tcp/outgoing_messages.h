#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "transport/tcp/peer_connection.h"
#include "transport/tcp/transfer.h"

namespace unisono::transport {

/// The messages to one peer. A small one is sent at once while there is room for it at the peer. Any other is announced by a request; its first bytes
/// follow while there is room, and the rest when the peer has cleared the request, because its receive has been posted.
class OutgoingMessages {
 public:
  explicit OutgoingMessages(PeerConnection& connection) : connection_(connection) {}

  void send(const TransferPtr& transfer);
  /// Withdraws a message whose memory is not used any more. Returns false where it is not under way here.
  bool withdraw(const TransferPtr& transfer);
  bool has_requests() const { return !requested_.empty(); }
  void end_group(std::uint64_t group);
  void fail_all(PeerFailed::Cause cause, const std::string& text);

  // The frames by which the peer answers. Those that return a bool return true where a task may go on. All throw ProtocolError.
  bool on_clear(const FrameHead& head);
  bool on_refused(const FrameHead& head);
  void on_consumed(const FrameHead& head);

 private:
  struct Requested {
    TransferPtr transfer;
    std::size_t early = 0;  ///< bytes of its room at the peer, where data is sent before the request is cleared
  };
  using Requests = std::unordered_map<std::uint64_t, Requested>;
  TransferPtr take(Requests::iterator requested);

  PeerConnection& connection_;
  std::size_t unconsumed_ = 0;  ///< bytes of eager messages at the peer, and of data that it has not cleared
  std::size_t early_sent_ = 0;  ///< of these, the latter: the peer reports none of them
  std::uint64_t last_request_ = 0;
  Requests requested_;  ///< sends that wait to be cleared
};

}  // namespace unisono::transport
