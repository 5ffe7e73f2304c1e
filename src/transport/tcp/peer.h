#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "transport/tcp/ended_groups.h"
#include "transport/tcp/frame_reader.h"
#include "transport/tcp/link.h"
#include "transport/tcp/acceptor.h"
#include "transport/tcp/frame_writer.h"

namespace unisono::transport {

/// A notice that has arrived and waits for its listener.
struct Notice {
  int peer = -1;
  std::uint64_t group = 0;
  std::string text;
};

/// What a peer has said of others: a frame of kind spread or gone.
struct Word {
  int from = -1;
  FrameKind kind = FrameKind::spread;
  std::uint64_t group = 0;
  std::string text;
};

/// The data that the peers of a link share.
struct SharedState {
  std::vector<Word> words;      ///< arrived since they were last handled
  std::vector<int> left;        ///< ranks whose goodbye has arrived since then
  std::vector<Notice> notices;  ///< arrived since they were last handed on
  EndedGroups groups_over;      ///< nothing is kept for them
  bool stirred = false;         ///< something happened that a caller may wait for
  int epoll = -1;               ///< the epoll instance that watches the connections
};

/// The connection with one rank, or what waits for it: matches arriving messages with receives, and sends. Guarded by the link's mutex.
class Peer final : public FrameSink {
 public:
  /// There is no connection yet. `address`: where the rank listens.
  Peer(int rank, std::string address, SharedState& shared) : rank_(rank), address_(std::move(address)), shared_(shared) {}
  /// Takes the connection over. What waits for it is sent by the next call, behind what the link says first.
  void connect(Established connection);
  void send_waiting();
  bool was_connected() const { return was_connected_; }
  /// Returns true where a message waits for a connection, in this or the other direction.
  bool needs_connection() const;

  int rank() const { return rank_; }
  int fd() const { return fd_.get(); }
  Connection connection() const { return {fd_.get(), tls_.get()}; }
  bool is_open() const { return fd_.valid(); }
  const std::string& address() const { return address_; }
  std::string name() const;  ///< "rank 3 (10.0.0.2:41234)"

  void send(const TransferPtr& transfer);
  void recv(const TransferPtr& transfer);
  /// Withdraws a transfer whose task is destroyed before its end: its memory is not used any more.
  void withdraw(const TransferPtr& transfer);
  /// Continues a send from a copy of its data.
  static void detach(Transfer& transfer);
  void notify(std::uint64_t group, std::string_view text);
  /// Keeps the message of a call for a connection that is not there yet.
  void post_later(const FrameHead& frame, std::span<const std::byte> head, std::span<const std::byte> data);
  /// Returns the writer of small frames; null where the peer takes none any more, or none yet.
  FrameWriter* writer() { return has_left_ ? nullptr : last_writer(); }
  /// Returns the writer of what goes before this rank's goodbye, to a peer that has left, too.
  FrameWriter* last_writer() { return is_open() && !said_goodbye_ ? &writer_ : nullptr; }
  bool take(std::uint64_t group, std::string& into);
  void end_group(std::uint64_t group);
  /// Returns true while a send waits for the peer or for the socket.
  bool owes() const;
  void say_goodbye();

  /// Reads and writes without waiting. Returns the loss of the connection, if it ended.
  std::optional<Link::Loss> pump(base::Clock::time_point now);
  /// Sends a heartbeat where nothing else was sent since the last one.
  void beat();
  /// Returns true where bytes have been read that the next `pump` handles.
  bool has_unread() const { return is_open() && (reader_.is_paused() || connection().has_unread()); }
  bool wants_to_write() const { return is_open() && is_writing() && !writer_.broken(); }
  base::Clock::time_point heard() const { return heard_; }
  /// Excludes a time in which this side did not listen from the peer's silence.
  void forgive(base::Clock::duration time, base::Clock::time_point now) { heard_ = std::min(heard_ + time, now); }

  /// Called after a goodbye: nothing more will be written. Returns true once the peer's system has everything.
  bool has_delivered();
  /// Closes the connection. All transfers that wait for the peer fail with this loss.
  Link::Loss lose(PeerFailed::Cause cause, const std::string& text);
  /// Tells that others say that the rank has left. There is no connection.
  void hear_that_it_left();
  bool has_left() const { return has_left_; }
  bool said_goodbye() const { return said_goodbye_; }
  const std::optional<Link::Loss>& loss() const { return loss_; }

  bool warned = false;               ///< a warning of its silence was logged
  std::uint32_t watched_events = 0;  ///< events that epoll watches for
  bool is_awaited = false;           ///< without a connection: a message of it is waited for

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

  struct Requested {
    TransferPtr transfer;
    std::size_t early = 0;  ///< bytes of its room at the peer, where data is sent before the request is cleared
  };

  Target begin(const FrameHead& head) override;
  void finish(const FrameHead& head) override;
  bool pauses() override { return std::exchange(has_call_, false); }
  bool expects_much() const override { return large_expected_ + cleared_.size() > 0; }
  Target begin_eager(const FrameHead& head);
  Target begin_data(const FrameHead& head);
  void finish_data(const FrameHead& head);
  void take_room_back(const Requested& requested);
  void hand_over_early(const TransferPtr& transfer);
  void drop_early(std::uint64_t id);
  void expect(Channel& channel, const TransferPtr& transfer);
  void no_longer_expected(const Transfer& transfer);
  void on_request(const FrameHead& head);
  void on_clear(const FrameHead& head);
  void on_withdrawn(const FrameHead& head);
  void on_refused(const FrameHead& head);
  void on_call(const FrameHead& head);
  void on_goodbye();
  void fulfil(const TransferPtr& transfer, Arrived& message);
  void clear(const TransferPtr& transfer, std::uint64_t id);
  void refuse(std::uint64_t id, Refusal why);
  void reject_length(Transfer& transfer, std::uint64_t sent) const;
  void consume(std::size_t length);
  TransferPtr take_expecting(ChannelKey key);
  void tidy(ChannelKey key);
  bool is_writing() const { return !writer_.empty() || (tls_ && tls_->has_unsent()); }
  void close();
  void fail_all(PeerFailed::Cause cause, const std::string& text);

  const int rank_;
  std::string address_;
  base::FileDescriptor fd_;
  std::unique_ptr<base::TlsConnection> tls_;  ///< null: the connection is not encrypted
  SharedState& shared_;
  FrameReader reader_;
  FrameWriter writer_;
  base::Clock::time_point heard_ = base::Clock::now();
  bool was_connected_ = false, has_left_ = false, said_goodbye_ = false, shut_ = false;
  std::optional<Link::Loss> loss_;

  struct Waiting {
    TransferPtr transfer;  ///< null: a frame
    FrameHead head{};
    std::string payload{};
  };
  std::deque<Waiting> waiting_;  ///< for the connection

  std::size_t unconsumed_ = 0;  ///< bytes of this rank's eager messages at the peer, and of data that it has not cleared
  std::size_t early_sent_ = 0;  ///< of these, the latter: the peer reports none of them
  std::uint64_t last_request_ = 0;
  std::unordered_map<std::uint64_t, Requested> requested_;  ///< sends that wait to be cleared

  std::unordered_map<ChannelKey, Channel, KeyHash> channels_;
  std::uint64_t last_requested_ = 0;                        ///< by the peer
  std::unordered_map<std::uint64_t, TransferPtr> cleared_;  ///< receives whose data is arriving
  struct Early {
    std::uint64_t total = 0;  ///< as the request announced
    std::vector<std::byte> bytes{};
    bool is_dropped = false;  ///< nobody will receive it
  };
  std::unordered_map<std::uint64_t, Early> early_;  ///< data of requests that came before its receive was posted
  std::uint64_t early_id_ = 0;                      ///< the request whose early data is arriving; 0: none
  std::size_t large_expected_ = 0;                  ///< posted receives of many bytes whose messages have not begun to arrive
  std::size_t unreceived_ = 0, unreported_ = 0;     ///< bytes of the peer's eager messages: kept here; received, but not reported yet
  Arrived eager_;                                   ///< the eager message that is arriving
  TransferPtr eager_into_;                          ///< the receive that it arrives in, if there is one
  bool eager_dropped_ = false;
  std::string notice_;     ///< the notice or the message of a call that is arriving
  bool has_call_ = false;  ///< a message of a call has just come: its call posts the receives of what follows
  struct Mail {
    std::deque<std::string> messages;
    std::size_t bytes = 0;
  };
  std::size_t mail_size_ = 0;                     ///< bytes of the messages in `mail_`
  std::unordered_map<std::uint64_t, Mail> mail_;  ///< what the peer said of calls, by group
};

}  // namespace unisono::transport
