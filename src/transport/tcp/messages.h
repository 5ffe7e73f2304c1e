#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/tcp/peer_connection.h"
#include "transport/tcp/transfer.h"

namespace unisono::transport {

/// The messages of one peer: matches each with a receive of its channel, and keeps those that come before their receives.
class IncomingMessages {
 public:
  IncomingMessages(PeerConnection& connection, const EndedGroups& groups_over) : connection_(connection), groups_over_(groups_over) {}

  /// Completes a receive, or begins to, with a message that has come before it. Returns false where none has.
  bool match_arrived(const TransferPtr& transfer);
  /// Posts a receive whose message has not come yet.
  void expect(const TransferPtr& transfer);
  /// Returns true where a receive waits for its message.
  bool is_expecting() const;
  void withdraw(const TransferPtr& transfer);
  void end_group(std::uint64_t group);
  void fail_all(PeerFailed::Cause cause, const std::string& text);

  // The frames of the peer. All throw ProtocolError.
  Target begin_eager(const FrameHead& head);
  void finish_eager(const FrameHead& head);
  Target begin_data(const FrameHead& head);
  /// Returns true where the message is complete.
  bool finish_data(const FrameHead& head);
  /// Returns true where a receive waits for the message.
  bool on_request(const FrameHead& head);
  void on_withdrawn(const FrameHead& head);
  /// Returns true where the next frame is likely to have a large payload whose destination is known.
  bool expects_much() const { return large_expected_ + cleared_.size() > 0; }

 private:
  struct Arrived {
    std::vector<std::byte> bytes;     ///< of an eager message
    std::uint64_t id = 0, total = 0;  ///< of a request; id 0: it is an eager message
  };
  struct Channel {
    std::deque<Arrived> arrived;        ///< without a receive so far
    std::deque<TransferPtr> expecting;  ///< without a message so far; one of the two is empty
  };
  struct KeyHash {
    std::size_t operator()(const ChannelKey& key) const noexcept { return static_cast<std::size_t>((key.first ^ key.second) * 0x9e3779b97f4a7c15U); }
  };
  struct Early {
    std::uint64_t total = 0;  ///< as the request announced
    std::vector<std::byte> bytes{};
    bool is_dropped = false;  ///< nobody will receive it
  };
  void copy_early(const TransferPtr& transfer);
  void drop_early(std::uint64_t id);
  void no_longer_expected(const Transfer& transfer);
  void fulfil(const TransferPtr& transfer, Arrived& message);
  void clear(const TransferPtr& transfer, std::uint64_t id);
  void refuse(std::uint64_t id, Refusal why);
  void reject_length(Transfer& transfer, std::uint64_t sent) const;
  void consume(std::size_t length);
  TransferPtr take_expecting(ChannelKey key);
  void tidy(ChannelKey key);

  PeerConnection& connection_;
  const EndedGroups& groups_over_;
  std::unordered_map<ChannelKey, Channel, KeyHash> channels_;
  std::uint64_t last_requested_ = 0;                        ///< by the peer
  std::unordered_map<std::uint64_t, TransferPtr> cleared_;  ///< receives whose data is arriving
  std::unordered_map<std::uint64_t, Early> early_;          ///< data of requests that came before its receive was posted
  std::uint64_t early_id_ = 0;                              ///< the request whose early data is arriving; 0: none
  std::size_t large_expected_ = 0;                          ///< posted receives of many bytes whose messages have not begun to arrive
  std::size_t unreceived_ = 0, unreported_ = 0;             ///< bytes of eager messages: kept here; received, but not reported yet
  Arrived eager_;                                           ///< the eager message that is arriving
  TransferPtr eager_into_;                                  ///< the receive that it arrives in, if there is one
  bool eager_dropped_ = false;
};

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
