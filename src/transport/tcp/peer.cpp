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

constexpr std::size_t most_at_once = std::size_t{1} << 20;  ///< bytes read, and bytes written, before other peers have their turn

std::string numeric_address(int fd) {
  try {
    return base::describe(base::peer_address(fd));
  } catch (const Error&) {  // it is gone already, as the first read will show
    return "an address that is gone";
  }
}

}  // namespace

Peer::Peer(int rank, base::FileDescriptor fd, std::string_view already, SharedState& shared)
    : rank_(rank), address_(numeric_address(fd.get())), fd_(std::move(fd)), shared_(shared), reader_(already) {}

std::string Peer::name() const { return fmt::format("rank {} ({})", rank_, address_); }

// ---- calls of tasks -----------------------------------------------------------------------------------------

void Peer::send(const TransferPtr& transfer) {
  const auto [group, channel] = transfer->channel;
  if (loss_) return transfer->fail(loss_->cause, loss_->text);
  if (has_left_) return transfer->fail(PeerFailed::disconnected, fmt::format("{} has left (finalize) and takes no message any more", name()));
  if (said_goodbye_) return transfer->fail(PeerFailed::disconnected, "this rank has said goodbye");
  if (shared_.groups_over.contains(group)) return transfer->fail(PeerFailed::aborted, "the group is over");
  if (transfer->bytes <= base::eager_bytes && unconsumed_ + cost_of(transfer->bytes) <= eager_room) {
    unconsumed_ += cost_of(transfer->bytes);
    const FrameHead head{.kind = FrameKind::eager, .length = static_cast<std::uint32_t>(transfer->bytes), .group = group, .channel = channel};
    writer_.write(fd(), head, {transfer->data, transfer->bytes});
    return transfer->finish();
  }
  transfer->id = ++last_request_;
  requested_.emplace(transfer->id, transfer);
  writer_.write(fd(), {.kind = FrameKind::request, .group = group, .channel = channel, .id = transfer->id, .total = transfer->bytes});
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
  channel.expecting.push_back(transfer);
}

void Peer::withdraw(const TransferPtr& transfer) {
  if (!transfer->pending()) return;
  // A receive may have the id of a peer's request, which is none of ours.
  if (const auto found = requested_.find(transfer->id); found != requested_.end() && found->second == transfer) {
    requested_.erase(found);
    writer_.write(fd(), {.kind = FrameKind::withdrawn, .id = transfer->id});
  } else if (!writer_.withdraw(fd(), transfer)) {
    if (const auto channel = channels_.find(transfer->channel); channel != channels_.end()) {
      std::erase(channel->second.expecting, transfer);
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
  if (!is_open() || has_left_ || said_goodbye_) return;
  writer_.write(fd(), {.kind = FrameKind::notice, .length = static_cast<std::uint32_t>(text.size()), .group = group}, std::as_bytes(std::span(text)));
}

void Peer::end_group(std::uint64_t group) {
  const auto over = [&](Transfer& transfer) {
    if (!transfer.pending()) return;
    transfer.data = nullptr;
    transfer.fail(PeerFailed::aborted, "the group is over");
  };
  for (auto it = channels_.begin(); it != channels_.end();) {
    if (it->first.first != group) {
      ++it;
      continue;
    }
    for (const TransferPtr& each : it->second.expecting) over(*each);
    for (const Arrived& message : it->second.arrived) {
      if (message.id != 0) {
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
  for (const auto& [id, transfer] : requested_) {
    if (transfer->channel.first == group) sends.push_back(transfer);
  }
  writer_.for_each([&](const TransferPtr& transfer) {
    if (transfer->channel.first == group) sends.push_back(transfer);
  });
  for (const TransferPtr& transfer : sends) {
    withdraw(transfer);
    over(*transfer);
  }
  if (eager_into_ && eager_into_->channel.first == group) over(*eager_into_);
}

void Peer::say_goodbye() {
  if (!is_open() || std::exchange(said_goodbye_, true)) return;
  writer_.write(fd(), {.kind = FrameKind::goodbye});
}

// ---- transfer of bytes --------------------------------------------------------------------------------------

std::optional<Link::Loss> Peer::pump(base::Clock::time_point now) {
  if (!is_open()) return std::nullopt;
  try {
    const FrameReader::Received received = reader_.receive(fd(), *this, most_at_once);
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
      return lose(PeerFailed::disconnected, received.error == ECONNRESET
                                                ? fmt::format("the connection to {} was reset", name())
                                                : fmt::format("the connection to {} broke: {}", name(), base::error_text(received.error)));
    }
    const bool streaming = !writer_.empty();
    if (streaming && writer_.flush(fd(), most_at_once) != FrameWriter::State::blocked) shared_.stirred = true;
  } catch (const std::exception&) {
    return lose(PeerFailed::disconnected, fmt::format("{} sent what does not belong here: {}", name(), base::message_of(std::current_exception())));
  }
  return std::nullopt;
}

void Peer::beat() {
  if (is_open() && !said_goodbye_ && !writer_.wrote() && writer_.empty()) {
    writer_.write(fd(), {.kind = FrameKind::heartbeat});
    writer_.wrote();
  }
}

bool Peer::has_delivered() {
  if (!is_open() || writer_.broken()) return true;
  if (!writer_.empty()) return false;
  if (!std::exchange(shut_, true)) ::shutdown(fd(), SHUT_WR);
  int unsent = 0;
  return ::ioctl(fd(), SIOCOUTQ, &unsent) != 0 || unsent == 0;
}

// Shuts the socket down first: a child of fork may have it as well, and closing this descriptor alone would end nothing.
void Peer::close() {
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
  for (const auto& [id, transfer] : requested_) fail(*transfer);
  for (const auto& [id, transfer] : cleared_) fail(*transfer);
  for (auto& [key, channel] : channels_) {
    for (const TransferPtr& transfer : channel.expecting) fail(*transfer);
    channel.expecting.clear();
    std::erase_if(channel.arrived, [](const Arrived& message) { return message.id != 0; });
  }
  if (eager_into_) fail(*eager_into_);
  eager_into_.reset();
  requested_.clear();
  cleared_.clear();
  writer_.give_up(fail);
  shared_.stirred = true;
}

}  // namespace unisono::transport
