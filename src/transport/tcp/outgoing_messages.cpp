#include "transport/tcp/messages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace unisono::transport {
namespace {

constexpr std::size_t never_early = std::size_t{4} << 10;  ///< bytes at the end of a message with a request

}  // namespace

void OutgoingMessages::send(const TransferPtr& transfer) {
  const auto [group, channel] = transfer->channel;
  const std::size_t limit = channel == base::collective_channel ? longest_eager : base::eager_bytes;
  if (transfer->bytes <= limit && unconsumed_ + cost_of(transfer->bytes) <= eager_room) {
    unconsumed_ += cost_of(transfer->bytes);
    const FrameHead head{.kind = FrameKind::eager, .length = static_cast<std::uint32_t>(transfer->bytes), .group = group, .channel = channel};
    connection_.write(head, {transfer->data, transfer->bytes});
    return transfer->finish();
  }
  transfer->id = ++last_request_;
  // The ranks have agreed on a collective before it sends, so its sends end when their bytes have gone, as far as there is room. The last bytes of
  // any other message wait until its receive has been posted, so that the send ends then.
  const std::size_t held = channel == base::collective_channel ? 0 : std::min(transfer->bytes, never_early);
  const std::size_t early = std::min(transfer->bytes - held, early_room - std::min(unconsumed_, early_room));
  requested_.emplace(transfer->id, Requested{transfer, early});
  const FrameHead request{.kind = FrameKind::request, .group = group, .channel = channel, .id = transfer->id, .total = transfer->bytes};
  if (early == 0) return connection_.write(request);
  // Most often the receive has been posted. Otherwise this much is kept until it is.
  connection_.writer().keep(request);
  unconsumed_ += early;
  early_sent_ += early;
  transfer->may_move = early;
  connection_.writer().stream(transfer);
  connection_.flush();
}

// The data of a request that is cleared, or is no request any more, takes no room at the peer.
TransferPtr OutgoingMessages::take(Requests::iterator requested) {
  unconsumed_ -= requested->second.early;
  early_sent_ -= requested->second.early;
  TransferPtr transfer = std::move(requested->second.transfer);
  requested_.erase(requested);
  return transfer;
}

bool OutgoingMessages::withdraw(const TransferPtr& transfer) {
  // A receive may have the id of a peer's request, which is none of ours.
  const auto found = requested_.find(transfer->id);
  const bool is_requested = found != requested_.end() && found->second.transfer == transfer;
  if (is_requested) take(found);
  if (connection_.withdraw(transfer)) return true;
  if (is_requested) connection_.write({.kind = FrameKind::withdrawn, .id = transfer->id});
  return is_requested;
}

void OutgoingMessages::end_group(std::uint64_t group) {
  std::vector<TransferPtr> sends;
  for (const auto& [id, requested] : requested_) {
    if (requested.transfer->channel.first == group) sends.push_back(requested.transfer);
  }
  connection_.writer().for_each([&](const TransferPtr& transfer) {
    if (transfer->channel.first == group && !requested_.contains(transfer->id)) sends.push_back(transfer);
  });
  for (const TransferPtr& transfer : sends) {
    if (transfer->pending()) withdraw(transfer);
    transfer->abort();
  }
}

void OutgoingMessages::fail_all(PeerFailed::Cause cause, const std::string& text) {
  for (const auto& [id, requested] : requested_) requested.transfer->fail_if_pending(cause, text);
  requested_.clear();
  connection_.writer().give_up([&](Transfer& transfer) { transfer.fail_if_pending(cause, text); });
}

bool OutgoingMessages::on_clear(const FrameHead& head) {
  if (head.id == 0 || head.id > last_request_) throw ProtocolError("it asks for a message that was not offered");
  const auto found = requested_.find(head.id);
  if (found == requested_.end()) return false;  // withdrawn meanwhile
  const TransferPtr transfer = take(found);
  transfer->may_move = transfer->bytes;
  if (transfer->rest() != 0) return connection_.writer().stream(transfer), false;
  if (!transfer->pending()) return false;  // all of it went before the request was cleared
  transfer->finish();
  return true;
}

bool OutgoingMessages::on_refused(const FrameHead& head) {
  if (head.id == 0 || head.id > last_request_) throw ProtocolError("it refuses a message that was not offered");
  const auto found = requested_.find(head.id);
  if (found == requested_.end()) return false;
  const TransferPtr transfer = take(found);
  if (!transfer->pending()) return false;  // all of it went before
  connection_.withdraw(transfer);
  if (head.total == static_cast<std::uint64_t>(Refusal::group_over)) {
    transfer->fail(PeerFailed::aborted, fmt::format("the group is over at {}", connection_.name()));
  } else {
    transfer->reject(fmt::format("{} expected another length than the {} bytes sent on channel {}", connection_.name(), transfer->bytes,
                                 transfer->channel.second));
  }
  return true;
}

void OutgoingMessages::on_consumed(const FrameHead& head) {
  if (head.total > unconsumed_ - early_sent_) throw ProtocolError("it received more than was sent");
  unconsumed_ -= head.total;
}

}  // namespace unisono::transport
