#include "transport/tcp/messages.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace unisono::transport {
namespace {

constexpr std::size_t idle_channels = 1024;  ///< kept, so that using a channel again costs nothing
/// The room of a message that was given up counts as free at its sender before this side knows, so for a moment twice the room may be taken.
constexpr std::size_t most_unreceived = 2 * eager_room;
constexpr std::size_t most_requests = std::size_t{1} << 20;  ///< beyond it a peer is taken for broken

}  // namespace

bool IncomingMessages::match_arrived(const TransferPtr& transfer) {
  const auto found = channels_.find(transfer->channel);
  if (found == channels_.end() || found->second.arrived.empty()) return false;
  Arrived message = std::move(found->second.arrived.front());
  found->second.arrived.pop_front();
  fulfil(transfer, message);
  tidy(transfer->channel);
  return true;
}

void IncomingMessages::expect(const TransferPtr& transfer) {
  if (transfer->bytes >= FrameReader::direct_size) ++large_expected_;
  channels_[transfer->channel].expecting.push_back(transfer);
}

void IncomingMessages::no_longer_expected(const Transfer& transfer) {
  if (transfer.bytes >= FrameReader::direct_size) --large_expected_;
}

bool IncomingMessages::is_expecting() const {
  return std::ranges::any_of(channels_, [](const auto& channel) { return !channel.second.expecting.empty(); });
}

void IncomingMessages::withdraw(const TransferPtr& transfer) {
  const auto channel = channels_.find(transfer->channel);
  if (channel == channels_.end()) return;
  if (std::erase(channel->second.expecting, transfer) != 0) no_longer_expected(*transfer);
  tidy(transfer->channel);
}

void IncomingMessages::end_group(std::uint64_t group) {
  for (auto it = channels_.begin(); it != channels_.end();) {
    if (it->first.first != group) {
      ++it;
      continue;
    }
    for (const TransferPtr& each : it->second.expecting) {
      no_longer_expected(*each);
      each->abort();
    }
    for (const Arrived& message : it->second.arrived) {
      if (message.id != 0) {
        drop_early(message.id);
        if (connection_.is_open()) refuse(message.id, Refusal::group_over);
      } else {
        unreceived_ -= cost_of(message.bytes.size());
        consume(message.bytes.size());
      }
    }
    it = channels_.erase(it);
  }
  for (const auto& [id, transfer] : cleared_) {
    if (transfer->channel.first == group) transfer->abort();
  }
  if (eager_into_ && eager_into_->channel.first == group) eager_into_->abort();
}

void IncomingMessages::fail_all(PeerFailed::Cause cause, const std::string& text) {
  for (const auto& [id, transfer] : cleared_) transfer->fail_if_pending(cause, text);
  for (auto& [key, channel] : channels_) {
    for (const TransferPtr& transfer : channel.expecting) {
      transfer->fail_if_pending(cause, text);
      no_longer_expected(*transfer);
    }
    channel.expecting.clear();
    std::erase_if(channel.arrived, [](const Arrived& message) { return message.id != 0; });
  }
  if (eager_into_) eager_into_->fail_if_pending(cause, text);
  eager_into_.reset();
  cleared_.clear();
  early_.clear();
  early_id_ = 0;
}

// ---- the frames of the peer -----------------------------------------------------------------------------------

Target IncomingMessages::begin_eager(const FrameHead& head) {
  if (unreceived_ + unreported_ + cost_of(head.length) > most_unreceived) throw ProtocolError("more unreceived messages than there is room for");
  if (groups_over_.contains(head.group)) {
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

void IncomingMessages::finish_eager(const FrameHead& head) {
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
}

// Data of a request may come before its receive has been posted: it is kept. And it may still come for a request that was refused: it is dropped.
Target IncomingMessages::begin_data(const FrameHead& head) {
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

bool IncomingMessages::finish_data(const FrameHead& head) {
  early_id_ = 0;
  const auto found = cleared_.find(head.id);
  if (found == cleared_.end()) {
    if (const auto early = early_.find(head.id); early != early_.end() && early->second.is_dropped) drop_early(head.id);
    return false;
  }
  const TransferPtr transfer = found->second;
  copy_early(transfer);
  if (transfer->rest() != 0) return false;
  if (transfer->pending()) transfer->finish();
  cleared_.erase(head.id);
  return true;
}

// Copies what came before the receive was posted, but for a frame that has not arrived completely.
void IncomingMessages::copy_early(const TransferPtr& transfer) {
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

void IncomingMessages::drop_early(std::uint64_t id) {
  const auto found = early_.find(id);
  if (found == early_.end()) return;
  found->second.is_dropped = true;
  if (early_id_ == id) return;  // its last frame is still arriving there
  unreceived_ -= found->second.bytes.size();
  early_.erase(found);
}

TransferPtr IncomingMessages::take_expecting(ChannelKey key) {
  const auto found = channels_.find(key);
  if (found == channels_.end() || found->second.expecting.empty()) return nullptr;
  TransferPtr transfer = std::move(found->second.expecting.front());
  found->second.expecting.pop_front();
  no_longer_expected(*transfer);
  tidy(key);
  return transfer;
}

void IncomingMessages::tidy(ChannelKey key) {
  if (channels_.size() <= idle_channels) return;
  const auto found = channels_.find(key);
  if (found != channels_.end() && found->second.arrived.empty() && found->second.expecting.empty()) channels_.erase(found);
}

bool IncomingMessages::on_request(const FrameHead& head) {
  if (head.id != last_requested_ + 1) throw ProtocolError("its requests are not counted one by one");
  last_requested_ = head.id;
  if (groups_over_.contains(head.group)) {
    refuse(head.id, Refusal::group_over);
    return false;
  }
  const ChannelKey key{head.group, head.channel};
  Arrived message{{}, head.id, head.total};
  if (const TransferPtr waiting = take_expecting(key)) {
    fulfil(waiting, message);
    return true;
  }
  auto& arrived = channels_[key].arrived;
  if (arrived.size() >= most_requests || channels_.size() >= most_requests) throw ProtocolError("more requests than anybody makes");
  arrived.push_back(std::move(message));
  early_.emplace(head.id, Early{.total = head.total});
  return false;
}

void IncomingMessages::on_withdrawn(const FrameHead& head) {
  if (head.id == 0 || head.id > last_requested_) throw ProtocolError("it withdraws a message that it did not offer");
  if (const auto found = cleared_.find(head.id); found != cleared_.end()) {
    found->second->fail_if_pending(PeerFailed::aborted, fmt::format("{} has given up a message", connection_.name()));
    cleared_.erase(found);
    return;
  }
  drop_early(head.id);
  for (auto& [key, channel] : channels_) {
    if (std::erase_if(channel.arrived, [&](const Arrived& message) { return message.id == head.id; }) != 0) return;
  }
}

// ---- a message and its receive ------------------------------------------------------------------------------

// Completes a receive with a message that arrived before it was posted.
void IncomingMessages::fulfil(const TransferPtr& transfer, Arrived& message) {
  if (message.id == 0) {
    unreceived_ -= cost_of(message.bytes.size());
    consume(message.bytes.size());
    if (message.bytes.size() != transfer->bytes) return reject_length(*transfer, message.bytes.size());
    if (!message.bytes.empty() && transfer->data != nullptr) std::memcpy(transfer->data, message.bytes.data(), message.bytes.size());
    return transfer->finish();
  }
  if (message.total != transfer->bytes) {
    drop_early(message.id);
    refuse(message.id, Refusal::other_length);
    return reject_length(*transfer, message.total);
  }
  clear(transfer, message.id);
}

void IncomingMessages::clear(const TransferPtr& transfer, std::uint64_t id) {
  transfer->id = id;
  connection_.write({.kind = FrameKind::clear, .id = id});
  copy_early(transfer);
  if (transfer->rest() == 0 && early_id_ != id) transfer->finish();
  else cleared_.emplace(id, transfer);
}

void IncomingMessages::refuse(std::uint64_t id, Refusal why) {
  connection_.write({.kind = FrameKind::refused, .id = id, .total = static_cast<std::uint64_t>(why)});
}

void IncomingMessages::reject_length(Transfer& transfer, std::uint64_t sent) const {
  transfer.reject(
      fmt::format("{} sent {} bytes on channel {}, where {} were expected", connection_.name(), sent, transfer.channel.second, transfer.bytes));
}

void IncomingMessages::consume(std::size_t length) {
  unreported_ += cost_of(length);
  if (unreported_ < report_size || !connection_.is_open()) return;
  connection_.write({.kind = FrameKind::consumed, .total = unreported_});
  unreported_ = 0;
}

}  // namespace unisono::transport
