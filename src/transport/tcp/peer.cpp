// The calls of tasks on a peer, and the transfer of its bytes. peer_frames.cpp handles the frames.
#include "transport/tcp/peer.h"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/error_text.h"
#include "base/socket.h"

namespace unisono::transport {
namespace {

/// Bytes read, and bytes written, before other peers have their turn; a write may be larger (FrameWriter). Ranks that share processors then hand the
/// bytes on while they are still in the cache: with 256 KiB, 16 MiB among 8 ranks on two cores took 10 to 25 % longer.
constexpr std::size_t most_at_once = std::size_t{64} << 10;

constexpr std::size_t never_early = std::size_t{4} << 10;  ///< bytes at the end of a message with a request

std::string numeric_address(int fd) {
  try {
    return base::describe(base::peer_address(fd));
  } catch (const Error&) {  // it is gone already, as the first read will show
    return "an address that is gone";
  }
}

}  // namespace

void Peer::connect(Established connection) {
  was_connected_ = true;
  address_ = numeric_address(connection.fd.get());
  fd_ = std::move(connection.fd);
  tls_ = std::move(connection.tls);
  reader_ = FrameReader(connection.already, connection.keys.receiving);
  writer_ = FrameWriter(connection.keys.sending);
  heard_ = base::Clock::now();
}

void Peer::send_waiting() {
  const std::deque<Waiting> waiting = std::exchange(waiting_, {});
  for (const Waiting& each : waiting) {
    if (each.transfer == nullptr) writer_.write(this->connection(), each.head, std::as_bytes(std::span(each.payload)));
    else if (each.transfer->pending()) send(each.transfer);
  }
  shared_.stirred = true;
}

bool Peer::needs_connection() const {
  if (was_connected_ || loss_ || has_left_) return false;
  return is_awaited || !waiting_.empty() || std::ranges::any_of(channels_, [](const auto& channel) { return !channel.second.expecting.empty(); });
}

bool Peer::owes() const {
  if (loss_ || has_left_) return false;
  if (!was_connected_) return !waiting_.empty();
  return is_open() && (!requested_.empty() || is_writing()) && !writer_.broken();
}

void Peer::hear_that_it_left() {
  has_left_ = true;
  fail_all(PeerFailed::disconnected, fmt::format("{} has left (finalize)", name()));
}

std::string Peer::name() const { return fmt::format("rank {} ({})", rank_, address_); }

// ---- calls of tasks -----------------------------------------------------------------------------------------

void Peer::send(const TransferPtr& transfer) {
  const auto [group, channel] = transfer->channel;
  if (loss_) return transfer->fail(loss_->cause, loss_->text);
  if (has_left_) return transfer->fail(PeerFailed::disconnected, fmt::format("{} has left (finalize) and takes no message any more", name()));
  if (said_goodbye_) return transfer->fail(PeerFailed::disconnected, "this rank has said goodbye");
  if (shared_.groups_over.contains(group)) return transfer->fail(PeerFailed::aborted, "the group is over");
  if (!was_connected_) return waiting_.push_back({transfer}), void();
  const std::size_t limit = channel == base::collective_channel ? longest_eager : base::eager_bytes;
  if (transfer->bytes <= limit && unconsumed_ + cost_of(transfer->bytes) <= eager_room) {
    unconsumed_ += cost_of(transfer->bytes);
    const FrameHead head{.kind = FrameKind::eager, .length = static_cast<std::uint32_t>(transfer->bytes), .group = group, .channel = channel};
    writer_.write(connection(), head, {transfer->data, transfer->bytes});
    return transfer->finish();
  }
  transfer->id = ++last_request_;
  const std::size_t early = std::min(transfer->bytes - std::min(transfer->bytes, never_early), early_room - std::min(unconsumed_, early_room));
  requested_.emplace(transfer->id, Requested{transfer, early});
  writer_.write(connection(), {.kind = FrameKind::request, .group = group, .channel = channel, .id = transfer->id, .total = transfer->bytes});
  if (early == 0) return;
  // Most often the receive has been posted. Otherwise this much is kept until it is. The last bytes wait for it in any case, so that the send ends
  // when it has been posted.
  unconsumed_ += early;
  early_sent_ += early;
  transfer->may_move = early;
  writer_.stream(transfer);
  writer_.flush(connection(), most_at_once);
}

void Peer::expect(Channel& channel, const TransferPtr& transfer) {
  if (transfer->bytes >= FrameReader::direct_size) ++large_expected_;
  channel.expecting.push_back(transfer);
}

void Peer::no_longer_expected(const Transfer& transfer) {
  if (transfer.bytes >= FrameReader::direct_size) --large_expected_;
}

void Peer::recv(const TransferPtr& transfer) {
  if (shared_.groups_over.contains(transfer->channel.first)) return transfer->fail(PeerFailed::aborted, "the group is over");
  Channel& channel = channels_[transfer->channel];
  if (!channel.arrived.empty()) {
    Arrived message = std::move(channel.arrived.front());
    channel.arrived.pop_front();
    fulfil(transfer, message);
    return tidy(transfer->channel);
  }
  if (loss_) return transfer->fail(loss_->cause, loss_->text);
  if (has_left_) return transfer->fail(PeerFailed::disconnected, fmt::format("{} has left (finalize) and sends no message any more", name()));
  expect(channel, transfer);
}

void Peer::withdraw(const TransferPtr& transfer) {
  if (!transfer->pending()) return;
  std::erase_if(waiting_, [&](const Waiting& each) { return each.transfer == transfer; });
  // A receive may have the id of a peer's request, which is none of ours.
  if (const auto found = requested_.find(transfer->id); found != requested_.end() && found->second.transfer == transfer) {
    take_room_back(found->second);
    requested_.erase(found);
    if (!writer_.withdraw(connection(), transfer)) writer_.write(connection(), {.kind = FrameKind::withdrawn, .id = transfer->id});
  } else if (!writer_.withdraw(connection(), transfer)) {
    if (const auto channel = channels_.find(transfer->channel); channel != channels_.end()) {
      if (std::erase(channel->second.expecting, transfer) != 0) no_longer_expected(*transfer);
      tidy(transfer->channel);
    }
  }
  transfer->data = nullptr;  // the rest of a message that was cleared is discarded
}

void Peer::detach(Transfer& transfer) {
  if (!transfer.pending()) return;
  transfer.own.assign(transfer.data, transfer.data + transfer.rest());
  transfer.data = transfer.own.data();
}

void Peer::notify(std::uint64_t group, std::string_view text) {
  const FrameHead head{.kind = FrameKind::notice, .length = static_cast<std::uint32_t>(text.size()), .group = group};
  if (loss_ || has_left_ || said_goodbye_) return;
  if (!was_connected_) waiting_.push_back({nullptr, head, std::string(text)});
  else if (is_open()) writer_.write(connection(), head, std::as_bytes(std::span(text)));
}

void Peer::post_later(const FrameHead& frame, std::span<const std::byte> head, std::span<const std::byte> data) {
  if (was_connected_ || loss_ || has_left_ || said_goodbye_) return;
  std::string payload(reinterpret_cast<const char*>(head.data()), head.size());
  payload.append(reinterpret_cast<const char*>(data.data()), data.size());
  waiting_.push_back({nullptr, frame, std::move(payload)});
}

bool Peer::take(std::uint64_t group, std::string& into) {
  const auto found = mail_.find(group);
  if (found == mail_.end() || found->second.messages.empty()) return false;
  into.swap(found->second.messages.front());
  found->second.messages.pop_front();
  found->second.bytes -= into.size();
  mail_size_ -= into.size();
  return true;
}

void Peer::end_group(std::uint64_t group) {
  if (const auto found = mail_.find(group); found != mail_.end()) {
    mail_size_ -= found->second.bytes;
    mail_.erase(found);
  }
  const auto over = [&](Transfer& transfer) {
    if (!transfer.pending()) return;
    transfer.data = nullptr;
    transfer.fail(PeerFailed::aborted, "the group is over");
  };
  for (const Waiting& each : waiting_) {
    if (each.transfer && each.transfer->channel.first == group) over(*each.transfer);
  }
  std::erase_if(waiting_, [&](const Waiting& each) {
    return each.transfer ? each.transfer->channel.first == group : each.head.kind == FrameKind::call && each.head.group == group;
  });
  for (auto it = channels_.begin(); it != channels_.end();) {
    if (it->first.first != group) {
      ++it;
      continue;
    }
    for (const TransferPtr& each : it->second.expecting) {
      no_longer_expected(*each);
      over(*each);
    }
    for (const Arrived& message : it->second.arrived) {
      if (message.id != 0) {
        drop_early(message.id);
        if (is_open()) refuse(message.id, Refusal::group_over);
      } else {
        unreceived_ -= cost_of(message.bytes.size());
        consume(message.bytes.size());
      }
    }
    it = channels_.erase(it);
  }
  for (const auto& [id, transfer] : cleared_) {
    if (transfer->channel.first == group) over(*transfer);
  }
  std::vector<TransferPtr> sends;
  for (const auto& [id, requested] : requested_) {
    if (requested.transfer->channel.first == group) sends.push_back(requested.transfer);
  }
  writer_.for_each([&](const TransferPtr& transfer) {
    if (transfer->channel.first == group && !requested_.contains(transfer->id)) sends.push_back(transfer);
  });
  for (const TransferPtr& transfer : sends) {
    withdraw(transfer);
    over(*transfer);
  }
  if (eager_into_ && eager_into_->channel.first == group) over(*eager_into_);
}

void Peer::say_goodbye() {
  if (!is_open() || std::exchange(said_goodbye_, true)) return;
  writer_.write(connection(), {.kind = FrameKind::goodbye});
}

// ---- transfer of bytes --------------------------------------------------------------------------------------

std::optional<Link::Loss> Peer::pump(base::Clock::time_point now) {
  if (!is_open()) return std::nullopt;
  try {
    const FrameReader::Received received = reader_.receive(connection(), *this, most_at_once);
    if (received.bytes != 0) {
      heard_ = now;
      warned = false;
    }
    if (received.ended) {
      if (has_left_ || said_goodbye_) {
        fail_all(PeerFailed::disconnected, fmt::format("{} has closed the connection", name()));
        close();
        return std::nullopt;
      }
      if (received.error == 0 || received.error == EPIPE) {
        return lose(PeerFailed::disconnected, fmt::format("the connection to {} ended without a goodbye", name()));
      }
      if (tls_ && !tls_->error().empty()) {
        return lose(PeerFailed::disconnected, fmt::format("the connection to {} broke: what came does not belong there ({})", name(), tls_->error()));
      }
      return lose(PeerFailed::disconnected, received.error == ECONNRESET
                                                ? fmt::format("the connection to {} was reset", name())
                                                : fmt::format("the connection to {} broke: {}", name(), base::error_text(received.error)));
    }
    if (writer_.empty() && is_writing() && tls_->flush() && !is_writing()) shared_.stirred = true;
    const bool streaming = !writer_.empty();
    if (streaming && writer_.flush(connection(), most_at_once) != FrameWriter::State::blocked) shared_.stirred = true;
  } catch (const std::exception&) {
    return lose(PeerFailed::disconnected, fmt::format("{} sent what does not belong here: {}", name(), base::message_of(std::current_exception())));
  }
  return std::nullopt;
}

void Peer::beat() {
  if (is_open() && !said_goodbye_ && !writer_.wrote() && !is_writing()) {
    writer_.write(connection(), {.kind = FrameKind::heartbeat});
    writer_.wrote();
  }
}

bool Peer::has_delivered() {
  if (!is_open() || writer_.broken()) return true;
  if (tls_ && writer_.empty()) tls_->close();
  if (is_writing()) return false;
  if (!std::exchange(shut_, true)) ::shutdown(fd(), SHUT_WR);
  int unsent = 0;
  return ::ioctl(fd(), SIOCOUTQ, &unsent) != 0 || unsent == 0;
}

// Shuts the socket down first: a child of fork may have it as well, and closing this descriptor alone would end nothing.
void Peer::close() {
  if (!is_open()) return;
  ::epoll_ctl(shared_.epoll, EPOLL_CTL_DEL, fd(), nullptr);
  ::shutdown(fd(), SHUT_RDWR);
  fd_.reset();
}

Link::Loss Peer::lose(PeerFailed::Cause cause, const std::string& text) {
  loss_ = Link::Loss{rank_, cause, text};
  fail_all(cause, text);
  close();
  return *loss_;
}

void Peer::fail_all(PeerFailed::Cause cause, const std::string& text) {
  const auto fail = [&](Transfer& transfer) {
    if (transfer.pending()) transfer.fail(cause, text);
  };
  for (const Waiting& each : waiting_) {
    if (each.transfer) fail(*each.transfer);
  }
  waiting_.clear();
  for (const auto& [id, requested] : requested_) fail(*requested.transfer);
  for (const auto& [id, transfer] : cleared_) fail(*transfer);
  for (auto& [key, channel] : channels_) {
    for (const TransferPtr& transfer : channel.expecting) fail(*transfer);
    for (const TransferPtr& transfer : channel.expecting) no_longer_expected(*transfer);
    channel.expecting.clear();
    std::erase_if(channel.arrived, [](const Arrived& message) { return message.id != 0; });
  }
  if (eager_into_) fail(*eager_into_);
  eager_into_.reset();
  requested_.clear();
  cleared_.clear();
  early_.clear();
  early_id_ = 0;
  writer_.give_up(fail);
  shared_.stirred = true;
}

}  // namespace unisono::transport
