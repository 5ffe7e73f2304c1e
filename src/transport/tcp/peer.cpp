#include "transport/tcp/peer.h"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>

#include <fmt/format.h>

#include "base/error_text.h"
#include "base/socket.h"

namespace unisono::transport {

void Peer::connect(Established connection) {
  was_connected_ = true;
  connection_.open(std::move(connection));
  last_received_ = base::Clock::now();
}

void Peer::send_waiting() {
  const std::deque<Waiting> waiting = std::exchange(waiting_, {});
  for (const Waiting& each : waiting) {
    if (each.transfer == nullptr) connection_.write(each.head, std::as_bytes(std::span(each.payload)));
    else if (each.transfer->pending()) send(each.transfer);
  }
  shared_.changed = true;
}

bool Peer::needs_connection() const {
  if (was_connected_ || loss_ || has_left_) return false;
  return is_awaited || !waiting_.empty() || incoming_.is_expecting();
}

bool Peer::has_pending_sends() {
  if (loss_ || has_left_) return false;
  if (!was_connected_) return !waiting_.empty();
  return is_open() && (outgoing_.has_requests() || connection_.is_writing()) && !connection_.writer().broken();
}

void Peer::mark_as_left() {
  has_left_ = true;
  fail_all(PeerFailed::disconnected, fmt::format("{} has left (finalize)", name()));
}

// ---- calls of tasks -----------------------------------------------------------------------------------------

void Peer::send(const TransferPtr& transfer) {
  if (loss_) return transfer->fail(loss_->cause, loss_->text);
  if (has_left_) return transfer->fail(PeerFailed::disconnected, fmt::format("{} has left (finalize) and takes no message any more", name()));
  if (said_goodbye_) return transfer->fail(PeerFailed::disconnected, "this rank has said goodbye");
  if (shared_.groups_over.contains(transfer->channel.first)) return transfer->fail(PeerFailed::aborted, "the group is over");
  if (!was_connected_) return waiting_.push_back({transfer}), void();
  outgoing_.send(transfer);
}

void Peer::recv(const TransferPtr& transfer) {
  if (shared_.groups_over.contains(transfer->channel.first)) return transfer->fail(PeerFailed::aborted, "the group is over");
  if (incoming_.match_arrived(transfer)) return;
  if (loss_) return transfer->fail(loss_->cause, loss_->text);
  if (has_left_) return transfer->fail(PeerFailed::disconnected, fmt::format("{} has left (finalize) and sends no message any more", name()));
  incoming_.expect(transfer);
}

void Peer::withdraw(const TransferPtr& transfer) {
  if (!transfer->pending()) return;
  std::erase_if(waiting_, [&](const Waiting& each) { return each.transfer == transfer; });
  if (!outgoing_.withdraw(transfer)) incoming_.withdraw(transfer);
  transfer->data = nullptr;  // the rest of a message that was cleared is discarded
}

void Peer::notify(std::uint64_t group, std::string_view text, std::span<const std::byte> data) {
  const FrameHead head{.kind = FrameKind::notice,
                       .length = static_cast<std::uint32_t>(text.size() + data.size()),
                       .group = group,
                       .channel = static_cast<std::uint32_t>(data.size())};
  post(head, std::as_bytes(std::span(text)), data);
}

void Peer::post(const FrameHead& frame, std::span<const std::byte> head, std::span<const std::byte> data) {
  if (is_over()) return;
  if (is_open()) return connection_.write(frame, head, data);
  if (was_connected_) return;
  std::string payload(reinterpret_cast<const char*>(head.data()), head.size());
  payload.append(reinterpret_cast<const char*>(data.data()), data.size());
  waiting_.push_back({nullptr, frame, std::move(payload)});
}

void Peer::send_if_open(const FrameHead& frame, std::span<const std::byte> payload) {
  if (is_open()) post(frame, payload, {});
}

void Peer::end_group(std::uint64_t group) {
  calls_.end_group(group);
  std::erase_if(waiting_, [&](const Waiting& each) {
    if (!each.transfer) return each.head.kind == FrameKind::call && each.head.group == group;
    if (each.transfer->channel.first != group) return false;
    each.transfer->abort();
    return true;
  });
  incoming_.end_group(group);
  outgoing_.end_group(group);
}

void Peer::send_goodbye(std::string_view departure) {
  if (!is_open() || std::exchange(said_goodbye_, true)) return;
  // A peer that has left may still tell others.
  if (!departure.empty()) {
    connection_.write({.kind = FrameKind::gone, .length = static_cast<std::uint32_t>(departure.size())}, std::as_bytes(std::span(departure)));
  }
  connection_.write({.kind = FrameKind::goodbye});
}

// ---- frames -------------------------------------------------------------------------------------------------

Target Peer::begin(const FrameHead& head) {
  if (has_left_) throw ProtocolError("a frame after its goodbye");
  switch (head.kind) {
    case FrameKind::eager: return incoming_.begin_eager(head);
    case FrameKind::data: return incoming_.begin_data(head);
    case FrameKind::notice:
    case FrameKind::spread:
    case FrameKind::gone:
    case FrameKind::call: text_.resize(head.length); return {nullptr, reinterpret_cast<std::byte*>(text_.data())};
    default: return {};
  }
}

void Peer::finish(const FrameHead& head) {
  bool changed = true;
  switch (head.kind) {
    case FrameKind::eager: incoming_.finish_eager(head); break;
    case FrameKind::request:
      // The notice of its message may have come with it, and is delivered before the next bytes are read: that posts the receive.
      pauses_ = !incoming_.on_request(head) && !shared_.notices.empty();
      break;
    case FrameKind::withdrawn: incoming_.on_withdrawn(head); break;
    case FrameKind::data: changed = incoming_.finish_data(head); break;
    case FrameKind::clear: changed = outgoing_.on_clear(head); break;
    case FrameKind::refused: changed = outgoing_.on_refused(head); break;
    case FrameKind::consumed: outgoing_.on_consumed(head); return;
    case FrameKind::notice:
      if (!shared_.groups_over.contains(head.group)) shared_.notices.push_back({rank(), head.group, std::move(text_)});
      text_ = {};
      break;
    case FrameKind::call:
      pauses_ = true;
      if (!shared_.groups_over.contains(head.group)) calls_.keep(head.group, std::exchange(text_, {}));
      break;
    case FrameKind::heartbeat: return;
    case FrameKind::goodbye:  // all data of the peer has arrived before this frame, so the transfers that still wait fail
      shared_.left.push_back(rank());
      mark_as_left();
      break;
    case FrameKind::spread:
    case FrameKind::gone: shared_.reports.push_back({rank(), head.kind, head.group, std::exchange(text_, {})}); return;
  }
  if (changed) shared_.changed = true;
}

// ---- the connection -----------------------------------------------------------------------------------------

std::optional<Link::Loss> Peer::pump(base::Clock::time_point now) {
  if (!is_open()) return std::nullopt;
  try {
    const FrameReader::Received received = connection_.receive(*this);
    if (received.bytes != 0) {
      last_received_ = now;
      warned = false;
    }
    if (received.ended) {
      if (!has_left_ && !said_goodbye_) return lose(PeerFailed::disconnected, connection_.text_of_end(received));
      fail_all(PeerFailed::disconnected, fmt::format("{} has closed the connection", name()));
      close();
      return std::nullopt;
    }
    if (connection_.flush()) shared_.changed = true;
  } catch (const std::exception&) {
    return lose(PeerFailed::disconnected, fmt::format("{} sent unexpected data: {}", name(), base::message_of(std::current_exception())));
  }
  return std::nullopt;
}

void Peer::close() {
  if (!is_open()) return;
  ::epoll_ctl(shared_.epoll, EPOLL_CTL_DEL, connection_.fd(), nullptr);
  connection_.close();
}

Link::Loss Peer::lose(PeerFailed::Cause cause, const std::string& text) {
  loss_ = Link::Loss{rank(), cause, text};
  fail_all(cause, text);
  close();
  return *loss_;
}

void Peer::fail_all(PeerFailed::Cause cause, const std::string& text) {
  for (const Waiting& each : waiting_) {
    if (each.transfer) each.transfer->fail_if_pending(cause, text);
  }
  waiting_.clear();
  incoming_.fail_all(cause, text);
  outgoing_.fail_all(cause, text);
  shared_.changed = true;
}

namespace {

/// Bytes read, and bytes written, before other peers have their turn; a write may be larger (FrameWriter). Ranks that share processors then hand the
/// bytes on while they are still in the cache: with 256 KiB, 16 MiB among 8 ranks on two cores took 10 to 25 % longer.
constexpr std::size_t most_at_once = std::size_t{64} << 10;

std::string numeric_address(int fd) {
  try {
    return base::describe(base::peer_address(fd));
  } catch (const Error&) {  // it is gone already, as the first read will show
    return "an address that is gone";
  }
}

}  // namespace

void PeerConnection::open(Established established) {
  address_ = numeric_address(established.fd.get());
  fd_ = std::move(established.fd);
  tls_ = std::move(established.tls);
  reader_ = FrameReader(established.already, established.keys.receiving);
  writer_ = FrameWriter(established.keys.sending);
}

// Shuts the socket down first: a child of fork may have it as well, and closing this descriptor alone would end nothing.
void PeerConnection::close() {
  ::shutdown(fd(), SHUT_RDWR);
  fd_.reset();
}

std::string PeerConnection::name() const { return fmt::format("rank {} ({})", rank_, address_); }

bool PeerConnection::flush() {
  if (writer_.empty()) return is_writing() && tls_->flush() && !is_writing();
  return writer_.flush(socket(), most_at_once) != FrameWriter::State::blocked;
}

void PeerConnection::send_heartbeat() {
  if (writer_.wrote() || is_writing()) return;
  write({.kind = FrameKind::heartbeat});
  writer_.wrote();
}

bool PeerConnection::has_delivered() {
  if (!is_open() || writer_.broken()) return true;
  if (tls_ && writer_.empty()) tls_->close();
  if (is_writing()) return false;
  if (!std::exchange(is_shut_, true)) ::shutdown(fd(), SHUT_WR);
  int unsent = 0;
  return ::ioctl(fd(), SIOCOUTQ, &unsent) != 0 || unsent == 0;
}

FrameReader::Received PeerConnection::receive(FrameSink& sink) { return reader_.receive(socket(), sink, most_at_once); }

std::string PeerConnection::text_of_end(const FrameReader::Received& received) const {
  if (received.error == 0 || received.error == EPIPE) return fmt::format("the connection to {} ended without a goodbye", name());
  if (tls_ && !tls_->error().empty()) {
    return fmt::format("the connection to {} broke: unexpected data came ({})", name(), tls_->error());
  }
  if (received.error == ECONNRESET) return fmt::format("the connection to {} was reset", name());
  return fmt::format("the connection to {} broke: {}", name(), base::error_text(received.error));
}

}  // namespace unisono::transport
