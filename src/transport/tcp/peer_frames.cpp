// Handles the frames of a peer: matches messages with receives, and answers requests.
#include <cstring>

#include <fmt/format.h>

#include "transport/tcp/peer.h"

namespace unisono::transport {
namespace {

constexpr std::size_t idle_channels = 1024;                  ///< kept, so that using a channel again costs nothing
constexpr std::size_t most_requests = std::size_t{1} << 20;  ///< beyond it a peer is taken for broken

}  // namespace

Target Peer::begin(const FrameHead& head) {
  if (has_left_) throw ProtocolError("a frame after its goodbye");
  switch (head.kind) {
    case FrameKind::eager: return begin_eager(head);
    case FrameKind::data: {
      const auto found = cleared_.find(head.id);
      if (found == cleared_.end()) throw ProtocolError("data that nobody asked for");
      if (head.length > found->second->rest()) throw ProtocolError("more data than it announced");
      return {found->second};
    }
    case FrameKind::notice: notice_.resize(head.length); return {nullptr, reinterpret_cast<std::byte*>(notice_.data())};
    default: return {};
  }
}

void Peer::finish(const FrameHead& head) {
  switch (head.kind) {
    case FrameKind::eager: {
      shared_.stirred = true;
      if (eager_into_) {
        const TransferPtr into = std::move(eager_into_);
        if (into->pending()) into->finish();
        consume(head.length);
      } else if (std::exchange(eager_dropped_, false)) {
        consume(head.length);
      } else {
        const ChannelKey key{head.group, head.channel};
        unreceived_ += cost_of(head.length);
        if (const TransferPtr waiting = take_expecting(key)) fulfil(waiting, eager_);  // its receive was posted meanwhile, or has another length
        else channels_[key].arrived.push_back(std::move(eager_));
        eager_ = {};
      }
      return;
    }
    case FrameKind::request: return on_request(head);
    case FrameKind::clear: return on_clear(head);
    case FrameKind::data: {
      const auto found = cleared_.find(head.id);
      if (found->second->rest() != 0) return;
      if (found->second->pending()) found->second->finish();
      cleared_.erase(found);
      shared_.stirred = true;
      return;
    }
    case FrameKind::withdrawn: return on_withdrawn(head);
    case FrameKind::refused: return on_refused(head);
    case FrameKind::consumed:
      if (head.total > unconsumed_) throw ProtocolError("it received more than was sent");
      unconsumed_ -= head.total;
      return;
    case FrameKind::notice:
      if (!shared_.groups_over.contains(head.group)) shared_.notices.push_back({rank_, head.group, std::move(notice_)});
      notice_ = {};
      shared_.stirred = true;
      return;
    case FrameKind::heartbeat: return;
    case FrameKind::goodbye: return on_goodbye();
  }
}

Target Peer::begin_eager(const FrameHead& head) {
  if (unreceived_ + unreported_ + cost_of(head.length) > eager_room) throw ProtocolError("more unreceived messages than there is room for");
  if (shared_.groups_over.contains(head.group)) {
    eager_dropped_ = true;
    return {};
  }
  const ChannelKey key{head.group, head.channel};
  if (const auto found = channels_.find(key); found != channels_.end() && !found->second.expecting.empty()) {
    if (found->second.expecting.front()->bytes == head.length) {
      eager_into_ = take_expecting(key);
      return {eager_into_};
    }
  }
  eager_.bytes.resize(head.length);
  return {nullptr, eager_.bytes.data()};
}

TransferPtr Peer::take_expecting(ChannelKey key) {
  const auto found = channels_.find(key);
  if (found == channels_.end() || found->second.expecting.empty()) return nullptr;
  TransferPtr transfer = std::move(found->second.expecting.front());
  found->second.expecting.pop_front();
  tidy(key);
  return transfer;
}

void Peer::tidy(ChannelKey key) {
  if (channels_.size() <= idle_channels) return;
  const auto found = channels_.find(key);
  if (found != channels_.end() && found->second.arrived.empty() && found->second.expecting.empty()) channels_.erase(found);
}

void Peer::on_request(const FrameHead& head) {
  if (head.id != last_requested_ + 1) throw ProtocolError("its requests are not counted one by one");
  last_requested_ = head.id;
  if (shared_.groups_over.contains(head.group)) return refuse(head.id, Refusal::group_over);
  const ChannelKey key{head.group, head.channel};
  Arrived message{{}, head.id, head.total};
  shared_.stirred = true;
  if (const TransferPtr waiting = take_expecting(key)) return fulfil(waiting, message);
  auto& arrived = channels_[key].arrived;
  if (arrived.size() >= most_requests || channels_.size() >= most_requests) throw ProtocolError("more requests than anybody makes");
  arrived.push_back(std::move(message));
}

void Peer::on_clear(const FrameHead& head) {
  if (head.id == 0 || head.id > last_request_) throw ProtocolError("it asks for a message that was not offered");
  const auto found = requested_.find(head.id);
  if (found == requested_.end()) return;  // withdrawn meanwhile
  const TransferPtr transfer = std::move(found->second);
  requested_.erase(found);
  if (transfer->bytes != 0) return writer_.stream(transfer);
  transfer->finish();
  shared_.stirred = true;
}

void Peer::on_withdrawn(const FrameHead& head) {
  if (head.id == 0 || head.id > last_requested_) throw ProtocolError("it withdraws a message that it did not offer");
  const auto fail = [&](Transfer& transfer) {
    if (transfer.pending()) transfer.fail(PeerFailed::aborted, fmt::format("{} has given up a message", name()));
  };
  shared_.stirred = true;
  if (const auto found = cleared_.find(head.id); found != cleared_.end()) {
    fail(*found->second);
    cleared_.erase(found);
    return;
  }
  for (auto& [key, channel] : channels_) {
    if (std::erase_if(channel.arrived, [&](const Arrived& message) { return message.id == head.id; }) != 0) return;
  }
}

void Peer::on_refused(const FrameHead& head) {
  if (head.id == 0 || head.id > last_request_) throw ProtocolError("it refuses a message that was not offered");
  const auto found = requested_.find(head.id);
  if (found == requested_.end()) return;
  const TransferPtr transfer = std::move(found->second);
  requested_.erase(found);
  shared_.stirred = true;
  if (head.total == static_cast<std::uint64_t>(Refusal::group_over)) {
    transfer->fail(PeerFailed::aborted, fmt::format("the group is over at {}", name()));
  } else {
    transfer->reject(
        fmt::format("{} expected another length than the {} bytes sent on channel {}", name(), transfer->bytes, transfer->channel.second));
  }
}

// All data of the peer has arrived before this frame, so the transfers that still wait fail.
void Peer::on_goodbye() {
  has_left_ = true;
  fail_all(PeerFailed::disconnected, fmt::format("{} has left (finalize)", name()));
}

// ---- a message and its receive ------------------------------------------------------------------------------

// Completes a receive with a message that arrived before it was posted.
void Peer::fulfil(const TransferPtr& transfer, Arrived& message) {
  if (message.id == 0) {
    unreceived_ -= cost_of(message.bytes.size());
    consume(message.bytes.size());
    if (message.bytes.size() != transfer->bytes) return reject_length(*transfer, message.bytes.size());
    if (!message.bytes.empty() && transfer->data != nullptr) std::memcpy(transfer->data, message.bytes.data(), message.bytes.size());
    return transfer->finish();
  }
  if (loss_ || has_left_) {
    return transfer->fail(loss_ ? loss_->cause : PeerFailed::disconnected, loss_ ? loss_->text : fmt::format("{} has left (finalize)", name()));
  }
  if (message.total != transfer->bytes) {
    refuse(message.id, Refusal::other_length);
    return reject_length(*transfer, message.total);
  }
  clear(transfer, message.id);
}

void Peer::clear(const TransferPtr& transfer, std::uint64_t id) {
  transfer->id = id;
  writer_.write(fd(), {.kind = FrameKind::clear, .id = id});
  if (transfer->bytes == 0) transfer->finish();
  else cleared_.emplace(id, transfer);
}

void Peer::refuse(std::uint64_t id, Refusal why) {
  writer_.write(fd(), {.kind = FrameKind::refused, .id = id, .total = static_cast<std::uint64_t>(why)});
}

void Peer::reject_length(Transfer& transfer, std::uint64_t sent) const {
  transfer.reject(fmt::format("{} sent {} bytes on channel {}, where {} were expected", name(), sent, transfer.channel.second, transfer.bytes));
}

void Peer::consume(std::size_t length) {
  unreported_ += cost_of(length);
  if (unreported_ < report_size || !is_open()) return;
  writer_.write(fd(), {.kind = FrameKind::consumed, .total = unreported_});
  unreported_ = 0;
}

}  // namespace unisono::transport
