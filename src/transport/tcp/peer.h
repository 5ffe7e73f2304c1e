#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "transport/tcp/link.h"
#include "transport/tcp/messages.h"
#include "transport/tcp/peer_connection.h"
#include "transport/tcp/transfer.h"
#include "unisono/error.h"

namespace unisono::transport {

/// The messages of a peer about the calls of groups, until they are taken.
class CallMailbox {
 public:
  /// Throws ProtocolError where the peer has sent too much.
  void keep(std::uint64_t group, std::string message) {
    Mail& mail = mail_[group];
    if (mail.bytes + message.size() > most_of_group || bytes_ + message.size() > most) {
      throw ProtocolError("more messages of calls than anybody makes");
    }
    bytes_ += message.size();
    mail.bytes += message.size();
    mail.messages.push_back(std::move(message));
  }
  /// Takes the oldest message of the group. Returns false where there is none.
  bool take(std::uint64_t group, std::string& into) {
    const auto found = mail_.find(group);
    if (found == mail_.end() || found->second.messages.empty()) return false;
    into.swap(found->second.messages.front());
    found->second.messages.pop_front();
    found->second.bytes -= into.size();
    bytes_ -= into.size();
    return true;
  }
  void end_group(std::uint64_t group) {
    const auto found = mail_.find(group);
    if (found == mail_.end()) return;
    bytes_ -= found->second.bytes;
    mail_.erase(found);
  }

 private:
  /// Bytes of untaken messages, beyond which a peer is taken for broken: of one group, and of all. A group has few calls under way, but a rank may be
  /// in many groups whose calls another one has not begun yet.
  static constexpr std::size_t most_of_group = std::size_t{16} << 20, most = std::size_t{1} << 30;
  struct Mail {
    std::deque<std::string> messages;
    std::size_t bytes = 0;
  };
  std::size_t bytes_ = 0;  ///< of all messages
  std::unordered_map<std::uint64_t, Mail> mail_;
};

/// A notice that has arrived and waits for its listener.
struct Notice {
  int peer = -1;
  std::uint64_t group = 0;
  std::string text;
};

/// What a peer has said of other ranks: a frame of kind spread or gone.
struct Report {
  int from = -1;
  FrameKind kind = FrameKind::spread;
  std::uint64_t group = 0;
  std::string text;
};

/// The data that the peers of a link share.
struct SharedState {
  std::vector<Report> reports;  ///< arrived since they were last handled
  std::vector<int> left;        ///< ranks whose goodbye has arrived since then
  std::vector<Notice> notices;  ///< arrived since they were last delivered
  EndedGroups groups_over;      ///< nothing is kept for them
  bool changed = false;         ///< something happened that a caller may wait for
  int epoll = -1;               ///< the epoll instance that watches the connections
};

/// A rank, as the link deals with it: whether it is there, and what goes to and fro. Guarded by the link's mutex.
class Peer final : public FrameSink {
 public:
  /// There is no connection yet. `address`: where the rank listens.
  Peer(int rank, std::string address, SharedState& shared)
      : shared_(shared), connection_(rank, std::move(address)), outgoing_(connection_), incoming_(connection_, shared.groups_over) {}
  /// Takes the connection over. What waits for it is sent by the next call, behind what the link says first.
  void connect(Established connection);
  void send_waiting();
  bool was_connected() const { return was_connected_; }
  /// Returns true where a message waits for a connection, in this or the other direction.
  bool needs_connection() const;

  const PeerConnection& connection() const { return connection_; }
  /// Returns the connection if frames may be written to it; else null.
  PeerConnection* open_connection() { return !is_over() && is_open() ? &connection_ : nullptr; }
  int rank() const { return connection_.rank(); }
  bool is_open() const { return connection_.is_open(); }
  std::string name() const { return connection_.name(); }

  void send(const TransferPtr& transfer);
  void recv(const TransferPtr& transfer);
  /// Withdraws a transfer whose task is destroyed before its end: its memory is not used any more.
  void withdraw(const TransferPtr& transfer);
  /// Sends a frame, or keeps it for a connection that is not there yet.
  void notify(std::uint64_t group, std::string_view text, std::span<const std::byte> data = {});
  void post(const FrameHead& frame, std::span<const std::byte> head, std::span<const std::byte> data);
  /// Sends a frame at once, or not at all.
  void send_if_open(const FrameHead& frame, std::span<const std::byte> payload);
  bool take_call(std::uint64_t group, std::string& into) { return calls_.take(group, into); }
  void end_group(std::uint64_t group);
  /// Returns true while a send waits for the peer or for the socket.
  bool has_pending_sends();

  /// Reads and writes without waiting. Returns the loss of the connection, if it ended.
  std::optional<Link::Loss> pump(base::Clock::time_point now);
  void send_heartbeat() {
    if (is_open() && !said_goodbye_) connection_.send_heartbeat();
  }
  base::Clock::time_point last_received() const { return last_received_; }
  /// Excludes a time in which this side did not read from the peer's silence.
  void exclude_from_silence(base::Clock::duration time, base::Clock::time_point now) { last_received_ = std::min(last_received_ + time, now); }

  /// Says goodbye. `departure`: what a link that connects on demand has its peers tell others; empty: nothing.
  void send_goodbye(std::string_view departure);
  /// Called after a goodbye. Returns true once the peer's system has everything.
  bool has_delivered() { return connection_.has_delivered(); }
  /// Closes the connection. All transfers that wait for the peer fail with this loss.
  Link::Loss lose(PeerFailed::Cause cause, const std::string& text);
  /// Called where others say that the rank has left, and there is no connection.
  void mark_as_left();
  bool has_left() const { return has_left_; }
  bool said_goodbye() const { return said_goodbye_; }
  const std::optional<Link::Loss>& loss() const { return loss_; }

  bool warned = false;               ///< a warning of its silence was logged
  std::uint32_t watched_events = 0;  ///< events that epoll watches for
  bool is_awaited = false;           ///< without a connection: a message of it is waited for

 private:
  struct Waiting {
    TransferPtr transfer;  ///< null: a frame
    FrameHead head{};
    std::string payload{};
  };
  Target begin(const FrameHead& head) override;
  void finish(const FrameHead& head) override;
  bool pauses() override { return std::exchange(pauses_, false); }
  bool expects_much() const override { return incoming_.expects_much(); }
  /// Returns true for a peer that takes nothing any more.
  bool is_over() const { return loss_ || has_left_ || said_goodbye_; }
  void close();
  void fail_all(PeerFailed::Cause cause, const std::string& text);

  SharedState& shared_;
  PeerConnection connection_;
  OutgoingMessages outgoing_;
  IncomingMessages incoming_;
  CallMailbox calls_;
  std::deque<Waiting> waiting_;  ///< for the connection
  base::Clock::time_point last_received_ = base::Clock::now();
  bool was_connected_ = false, has_left_ = false, said_goodbye_ = false;
  std::optional<Link::Loss> loss_;
  std::string text_;     ///< the notice, the report or the message of a call that is arriving
  bool pauses_ = false;  ///< a message of a call, or a notice, has just come: who gets it posts the receives of what follows
};

}  // namespace unisono::transport
