// Handles the frames of a peer: matches messages with receives, and answers requests.
#include <cstring>

#include <fmt/format.h>

#include "transport/tcp/peer.h"

namespace unisono::transport {
namespace {

constexpr std::size_t idle_channels = 1024;  ///< kept, so that using a channel again costs nothing
/// Bytes of untaken messages of calls, beyond which a peer is taken for broken: of one group, and of all. A group has few calls under way, but a rank
/// may be in many groups whose calls another one has not begun yet.
constexpr std::size_t most_mail_of_group = std::size_t{16} << 20;
constexpr std::size_t most_mail = std::size_t{1} << 30;
/// The room of a message that was given up counts as free at its sender before this side knows, so for a moment twice the room may be taken.
constexpr std::size_t most_unreceived = 2 * eager_room;
constexpr std::size_t most_requests = std::size_t{1} << 20;  ///< beyond it a peer is taken for broken

}  // namespace

Target Peer::begin(const FrameHead& head) {
  if (has_left_) throw ProtocolError("a frame after its goodbye");
  switch (head.kind) {
    case FrameKind::eager: return begin_eager(head);
    case FrameKind::data: return begin_data(head);
    case FrameKind::notice:
    case FrameKind::spread:
    case FrameKind::gone:
    case FrameKind::call: notice_.resize(head.length); return {nullptr, reinterpret_cast<std::byte*>(notice_.data())};
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
    case FrameKind::data: return finish_data(head);
    case FrameKind::withdrawn: return on_withdrawn(head);
    case FrameKind::refused: return on_refused(head);
    case FrameKind::consumed:
      if (head.total > unconsumed_ - early_sent_) throw ProtocolError("it received more than was sent");
      unconsumed_ -= head.total;
      return;
    case FrameKind::notice:
      if (!shared_.groups_over.contains(head.group)) shared_.notices.push_back({rank_, head.group, std::move(notice_)});
      notice_ = {};
      shared_.stirred = true;
      return;
    case FrameKind::call: return on_call(head);
    case FrameKind::heartbeat: return;
    case FrameKind::goodbye: return on_goodbye();
    case FrameKind::spread:
    case FrameKind::gone: shared_.words.push_back({rank_, head.kind, head.group, std::exchange(notice_, {})}); return;
  }
}

Target Peer::begin_eager(const FrameHead& head) {
  if (unreceived_ + unreported_ + cost_of(head.length) > most_unreceived) throw ProtocolError("more unreceived messages than there is room for");
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

// Data of a request may come before its receive has been posted: it is kept. And it may still come for a request that was refused: it is dropped.
Target Peer::begin_data(const FrameHead& head) {
  if (head.id == 0 || head.id > last_requested_) throw ProtocolError("data of a message that it did not offer");
  if (const auto found = cleared_.find(head.id); found != cleared_.end()) {
    if (head.length > found->second->rest()) throw ProtocolError("more data than it announced");
    return {found->second};
  }
  const auto found = early_.find(head.id);
  if (found == early_.end()) return {};
  std::vector<std::byte>& bytes = found->second.bytes;
  if (head.length > found->second.total - bytes.size()) throw ProtocolError("more data than it announced");
  if (unreceived_ + unreported_ + head.length > most_unreceived) throw ProtocolError("more unreceived messages than there is room for");
  unreceived_ += head.length;
  early_id_ = head.id;
  bytes.resize(bytes.size() + head.length);
  return {nullptr, bytes.data() + (bytes.size() - head.length)};
}

void Peer::finish_data(const FrameHead& head) {
  early_id_ = 0;
  const auto found = cleared_.find(head.id);
  if (found == cleared_.end()) {
    if (const auto early = early_.find(head.id); early != early_.end() && early->second.is_dropped) drop_early(head.id);
    return;
  }
  const TransferPtr transfer = found->second;
  hand_over_early(transfer);
  if (transfer->rest() != 0) return;
  if (transfer->pending()) transfer->finish();
  cleared_.erase(head.id);
  shared_.stirred = true;
}

// Copies what came before the receive was posted, but for a frame that has not arrived completely.
void Peer::hand_over_early(const TransferPtr& transfer) {
  const auto found = early_.find(transfer->id);
  if (found == early_.end() || early_id_ == transfer->id) return;
  const std::vector<std::byte>& bytes = found->second.bytes;
  if (transfer->data != nullptr && !bytes.empty()) {
    std::memcpy(transfer->data, bytes.data(), bytes.size());
    transfer->data += bytes.size();
  }
  transfer->moved += bytes.size();
  unreceived_ -= bytes.size();
  early_.erase(found);
}

void Peer::drop_early(std::uint64_t id) {
  const auto found = early_.find(id);
  if (found == early_.end()) return;
  found->second.is_dropped = true;
  if (early_id_ == id) return;  // its last frame is still arriving there
  unreceived_ -= found->second.bytes.size();
  early_.erase(found);
}

TransferPtr Peer::take_expecting(ChannelKey key) {
  const auto found = channels_.find(key);
  if (found == channels_.end() || found->second.expecting.empty()) return nullptr;
  TransferPtr transfer = std::move(found->second.expecting.front());
  found->second.expecting.pop_front();
  no_longer_expected(*transfer);
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
  early_.emplace(head.id, Early{.total = head.total});
}

/// The data of a request that is cleared, or is no request any more, takes no room at the peer.
void Peer::take_room_back(const Requested& requested) {
  unconsumed_ -= requested.early;
  early_sent_ -= requested.early;
}

void Peer::on_clear(const FrameHead& head) {
  if (head.id == 0 || head.id > last_request_) throw ProtocolError("it asks for a message that was not offered");
  const auto found = requested_.find(head.id);
  if (found == requested_.end()) return;  // withdrawn meanwhile
  const TransferPtr transfer = std::move(found->second.transfer);
  take_room_back(found->second);
  requested_.erase(found);
  transfer->may_move = transfer->bytes;
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
  drop_early(head.id);
  for (auto& [key, channel] : channels_) {
    if (std::erase_if(channel.arrived, [&](const Arrived& message) { return message.id == head.id; }) != 0) return;
  }
}

void Peer::on_refused(const FrameHead& head) {
  if (head.id == 0 || head.id > last_request_) throw ProtocolError("it refuses a message that was not offered");
  const auto found = requested_.find(head.id);
  if (found == requested_.end()) return;
  const TransferPtr transfer = std::move(found->second.transfer);
  take_room_back(found->second);
  requested_.erase(found);
  shared_.stirred = true;
  writer_.withdraw(connection(), transfer);
  if (head.total == static_cast<std::uint64_t>(Refusal::group_over)) {
    transfer->fail(PeerFailed::aborted, fmt::format("the group is over at {}", name()));
  } else {
    transfer->reject(
        fmt::format("{} expected another length than the {} bytes sent on channel {}", name(), transfer->bytes, transfer->channel.second));
  }
}

void Peer::on_call(const FrameHead& head) {
  shared_.stirred = true;
  has_call_ = true;
  if (shared_.groups_over.contains(head.group)) return;
  Mail& mail = mail_[head.group];
  if (mail.bytes + head.length > most_mail_of_group || mail_size_ + head.length > most_mail) {
    throw ProtocolError("more messages of calls than anybody makes");
  }
  mail_size_ += head.length;
  mail.bytes += head.length;
  mail.messages.push_back(std::move(notice_));
  notice_ = {};
}

// All data of the peer has arrived before this frame, so the transfers that still wait fail.
void Peer::on_goodbye() {
  has_left_ = true;
  shared_.left.push_back(rank_);
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
    drop_early(message.id);
    refuse(message.id, Refusal::other_length);
    return reject_length(*transfer, message.total);
  }
  clear(transfer, message.id);
}

void Peer::clear(const TransferPtr& transfer, std::uint64_t id) {
  transfer->id = id;
  writer_.write(connection(), {.kind = FrameKind::clear, .id = id});
  hand_over_early(transfer);
  if (transfer->rest() == 0 && early_id_ != id) transfer->finish();
  else cleared_.emplace(id, transfer);
}

void Peer::refuse(std::uint64_t id, Refusal why) {
  writer_.write(connection(), {.kind = FrameKind::refused, .id = id, .total = static_cast<std::uint64_t>(why)});
}

void Peer::reject_length(Transfer& transfer, std::uint64_t sent) const {
  transfer.reject(fmt::format("{} sent {} bytes on channel {}, where {} were expected", name(), sent, transfer.channel.second, transfer.bytes));
}

void Peer::consume(std::size_t length) {
  unreported_ += cost_of(length);
  if (unreported_ < report_size || !is_open()) return;
  writer_.write(connection(), {.kind = FrameKind::consumed, .total = unreported_});
  unreported_ = 0;
}

}  // namespace unisono::transport
