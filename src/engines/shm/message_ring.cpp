#include "engines/shm/message_ring.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <utility>

#include "base/asymmetric_fence.h"
#include "engines/shm/copy_trial.h"
#include "engines/shm/message_ring_tasks.h"
#include "engines/shm/private_memory.h"

namespace unisono::engines::shm {
namespace {

constexpr std::size_t unpublished_part = 8;  // of a ring and of the envelopes at most, 1 / 8, are free and count as full for the sender

}  // namespace

MessageRing::MessageRing(std::shared_ptr<Segment> segment, int rank, const base::Environment& environment)
    : segment_(std::move(segment)),
      rank_(rank),
      range_(single_copy_range(environment, single_copy_rule(SingleCopyOf::messages))),
      sources_(static_cast<std::size_t>(segment_->ranks())),
      destinations_(static_cast<std::size_t>(segment_->ranks())) {
  base::AsymmetricFence::register_process();
}

std::unique_ptr<Task> MessageRing::send(int peer, const MessageHeader& header, const void* data) {
  return std::make_unique<SendTask>(*this, peer, header, data);
}

MessageCarrier::Tried MessageRing::try_send(int peer, const MessageHeader& header, const void* data) {
  Destination& destination = to(peer);
  if (!destination.queue.empty() || !has_envelope_to(peer)) return Tried::no_room;
  if (header.bytes <= Envelope::room) {
    announce(peer, header, whole_mark, data);
    return Tried::sent;
  }
  const std::uint64_t total = padded(header.bytes);
  if (space_to(peer, total) < total) return total <= segment_->ring_bytes() ? Tried::no_room : Tried::never;
  std::byte* const memory = segment_->ring_data(rank_, peer);
  if (header.bytes <= stride) {
    into_ring(memory, segment_->ring_bytes(), destination.written, data, static_cast<std::size_t>(header.bytes));
    destination.written += total;
    announce(peer, header, whole_mark | asks_mark_for(peer, header.bytes), nullptr);
    return Tried::sent;
  }
  announce(peer, header, asks_mark_for(peer, header.bytes), nullptr);
  for (std::uint64_t at = 0; at < header.bytes; at += stride) {
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(stride, header.bytes - at));
    into_ring(memory, segment_->ring_bytes(), destination.written, static_cast<const std::byte*>(data) + at, part);
    destination.written += padded(part);
    publish_written(peer);
  }
  return Tried::sent;
}

std::uint64_t MessageRing::space_to(int peer, std::uint64_t wanted) {
  Destination& destination = to(peer);
  const std::uint64_t capacity = segment_->ring_bytes();
  if (capacity - (destination.written - destination.read) < wanted)
    destination.read = segment_->ring(rank_, peer).read.load(std::memory_order_acquire);  // litmus: ring-room
  return capacity - (destination.written - destination.read);
}

bool MessageRing::has_envelope_to(int peer) {
  Destination& destination = to(peer);
  if (destination.announced - destination.opened < Envelope::count) return true;
  destination.opened = segment_->ring(rank_, peer).opened.load(std::memory_order_acquire);  // litmus: envelope-room
  return destination.announced - destination.opened < Envelope::count;
}

void MessageRing::announce(int peer, const MessageHeader& header, std::uint32_t marks, const void* elements) noexcept {
  Destination& destination = to(peer);
  Envelope& envelope = segment_->envelope(rank_, peer, destination.announced);
  envelope.kind = header.kind;
  envelope.tag = header.tag;
  envelope.marks = marks;
  envelope.bytes = header.bytes;
  if (elements != nullptr) std::memcpy(envelope.elements, elements, static_cast<std::size_t>(header.bytes));
  envelope.number.store(static_cast<std::uint32_t>(++destination.announced), std::memory_order_release);  // litmus: envelope-number
  segment_->notifier(peer).notify_often();
}

void MessageRing::publish_written(int peer) noexcept {
  segment_->ring(rank_, peer).written.store(to(peer).written, std::memory_order_release);  // litmus: ring-written
  segment_->notifier(peer).notify_often();
}

// A sender that waits for room finds it in the rest of the ring.
void MessageRing::publish_read(int peer) {
  Source& source = from(peer);
  const bool is_much = source.read - source.published_read >= segment_->ring_bytes() / unpublished_part ||
                       source.opened - source.published_opened >= Envelope::count / unpublished_part;
  if (!is_much) return;
  source.published_read = source.read;
  source.published_opened = source.opened;
  RingControl& control = segment_->ring(peer, rank_);
  control.read.store(source.read, std::memory_order_release);      // litmus: ring-read
  control.opened.store(source.opened, std::memory_order_release);  // litmus: envelope-opened
  segment_->notifier(peer).notify_often();
}

std::optional<AnnouncedMessage> MessageRing::next(int peer) {
  Source& source = from(peer);
  Incoming& incoming = source.incoming;
  if (incoming.is_active) {
    pump(peer);
    if (incoming.is_active) return std::nullopt;
  }
  const Envelope& envelope = segment_->envelope(peer, rank_, source.opened);
  const std::uint32_t number = envelope.number.load(std::memory_order_acquire);  // litmus: envelope-look
  if (number != static_cast<std::uint32_t>(source.opened + 1)) return std::nullopt;
  const AnnouncedMessage message{{.bytes = envelope.bytes, .tag = envelope.tag, .kind = envelope.kind}, ++source.tickets};
  const std::uint32_t marks = envelope.marks;
  if ((marks & lent_mark) != 0) {
    source.lent.emplace(message.ticket, marks >> place_shift);
    ++source.opened;
    publish_read(peer);
    return message;
  }
  incoming.is_active = incoming.is_aside = true;
  incoming.ticket = message.ticket;
  incoming.header = message.header;
  incoming.received = 0;
  incoming.delivery = nullptr;
  incoming.elements = message.header.bytes <= Envelope::room ? envelope.elements : nullptr;
  if ((marks & whole_mark) != 0) source.written = std::max(source.written, source.read + in_ring(message.header.bytes));
  if ((marks & asks_mark) != 0) try_reach(peer);
  return message;
}

void MessageRing::deliver(int peer, std::uint64_t ticket, const MessageHeader& header, Delivery& delivery) {
  Source& source = from(peer);
  Incoming& incoming = source.incoming;
  if (incoming.is_active && incoming.ticket == ticket) {  // the rest goes to its destination
    if (delivery.to != nullptr) std::ranges::copy(incoming.aside, delivery.to);
    incoming.aside.clear();
    incoming.is_aside = false;
    incoming.delivery = &delivery;
    pump(peer);
    return;
  }
  if (const auto lent = source.lent.find(ticket); lent != source.lent.end()) {
    delivery.task = std::make_unique<ReadTask>(*this, peer, lent->second, delivery.to, header.bytes);
    source.lent.erase(lent);
    return;
  }
  const auto whole = source.aside.find(ticket);
  if (delivery.to != nullptr && header.bytes > 0) std::ranges::copy(whole->second, delivery.to);
  source.aside.erase(whole);
  delivery.is_done = true;
}

void MessageRing::advance(int peer, Delivery& delivery) {
  if (delivery.task) delivery.is_done = delivery.task->advance();
  else if (!delivery.is_done) pump(peer);
}

bool MessageRing::withdraw(int peer, std::uint64_t, Delivery& delivery) noexcept {
  Incoming& incoming = from(peer).incoming;
  if (incoming.delivery == &delivery) incoming.delivery = nullptr;
  return false;
}

// Without the variable the collectives' rule holds: from the size that the last trial of this process has found, up to eight times the second-level
// cache, since what does not fit the caches goes through the ring as fast: each side makes one of the two copies. Where messages go in both
// directions each side makes two, so there is no upper end.
bool MessageRing::pays_to_lend(int peer, std::uint64_t bytes) const {
  if (!range_ || bytes <= Envelope::room) return false;
  if (range_->up_to == 0) return bytes >= std::uint64_t{range_->from} << 10 && may_be_read();
  const auto found = CopyTrial::known();
  const bool is_below_end = bytes < std::uint64_t{range_->up_to} << 10 || destinations_[static_cast<std::size_t>(peer)].both_ways;
  return is_below_end && bytes >= (found ? found->from.value_or(0) : std::uint64_t{range_->from} << 10) && may_be_read();
}

// A message that was posted behind others keeps their order.
MessageCarrier::Lending MessageRing::lends(int peer, std::uint64_t bytes) {
  if (bytes > base::eager_bytes || !pays_to_lend(peer, bytes) || reach_of(peer) != Reach::yes) return Lending::no;
  const Destination& destination = to(peer);
  if (!destination.queue.empty()) return Lending::no;
  if (destination.copies != 0) reclaim(peer);
  return std::countr_one(destination.lent) < static_cast<int>(RingControl::backed) ? Lending::now : Lending::later;
}

bool MessageRing::leaves_to_receiver(int peer, std::uint64_t bytes) {
  const Destination& destination = to(peer);
  return may_lend(peer, bytes) && reach_of(peer) == Reach::yes && destination.queue.empty() && ~(destination.lent | places_with_memory) != 0 &&
         has_envelope_to(peer);
}

void MessageRing::reclaim(int peer) {
  Destination& destination = to(peer);
  for (std::uint64_t left = destination.copies; left != 0; left &= left - 1) {
    const auto place = static_cast<std::size_t>(std::countr_zero(left));
    if (!segment_->ring(rank_, peer).lent[place].take_returned()) continue;
    destination.copies &= ~(std::uint64_t{1} << place);
    destination.lent &= ~(std::uint64_t{1} << place);
  }
}

std::uint32_t MessageRing::asks_mark_for(int peer, std::uint64_t bytes) {
  if (reach_of(peer) != Reach::untried || !pays_to_lend(peer, bytes)) return 0;
  if (word_ == 0) {
    std::random_device random;
    word_ = std::uint64_t{random()} << 32 | random() | 1U;  // not 0
  }
  // The receiver may read it from the first message on that asks.
  if (PrivateCard& card = segment_->ring(rank_, peer).card; card.word == 0) card = {reinterpret_cast<std::uintptr_t>(&word_), word_};
  return asks_mark;
}

void MessageRing::try_reach(int peer) {
  RingControl& control = segment_->ring(peer, rank_);
  if (control.reads_sender.load(std::memory_order_relaxed) != static_cast<std::uint32_t>(Reach::untried)) return;
  const Reach reach = range_ && finds(*segment_, peer, control.card) ? Reach::yes : Reach::no;
  control.reads_sender.store(static_cast<std::uint32_t>(reach), std::memory_order_release);
}

void MessageRing::pump(int peer) {
  Source& source = from(peer);
  Incoming& incoming = source.incoming;
  if (!incoming.is_active) return;
  if (incoming.elements != nullptr) {
    take_part(incoming, incoming.elements, 0, static_cast<std::size_t>(incoming.header.bytes));
    return end_message(peer);
  }
  const std::byte* memory = segment_->ring_data(peer, rank_);
  const std::uint64_t total = padded(incoming.header.bytes);
  while (incoming.received < total) {
    if (source.written - source.read < total - incoming.received) {
      const std::uint64_t written = segment_->ring(peer, rank_).written.load(std::memory_order_acquire);  // litmus: ring-bytes
      source.written = std::max(source.written, written);
    }
    if (source.written == source.read) return;
    const auto part =
        static_cast<std::size_t>(std::min({total - incoming.received, source.written - source.read, static_cast<std::uint64_t>(stride)}));
    take_part(incoming, memory, source.read, part);
    incoming.received += part;
    source.read += part;
    publish_read(peer);
  }
  end_message(peer);
}

// Takes a part of a message; the padding at its end is dropped.
void MessageRing::take_part(Incoming& incoming, const std::byte* memory, std::uint64_t position, std::size_t part) {
  const auto useful =
      static_cast<std::size_t>(std::min<std::uint64_t>(part, incoming.header.bytes - std::min(incoming.received, incoming.header.bytes)));
  if (useful == 0) return;
  if (incoming.is_aside) {
    // The memory grows with the bytes that have come, not with the announced length.
    incoming.aside.resize(static_cast<std::size_t>(incoming.received) + useful);
    out_of_ring(incoming.aside.data() + incoming.received, memory, segment_->ring_bytes(), position, useful);
  } else if (incoming.delivery != nullptr && incoming.delivery->to != nullptr) {
    out_of_ring(incoming.delivery->to + incoming.received, memory, segment_->ring_bytes(), position, useful);
  }
}

void MessageRing::end_message(int peer) {
  Source& source = from(peer);
  Incoming& incoming = source.incoming;
  if (incoming.is_aside) source.aside.emplace(incoming.ticket, std::exchange(incoming.aside, {}));
  else if (incoming.delivery != nullptr) incoming.delivery->is_done = true;
  incoming.is_active = false;
  incoming.delivery = nullptr;
  ++source.opened;
  publish_read(peer);
}

}  // namespace unisono::engines::shm
