#include "engines/shm/message_ring.h"

#include <algorithm>
#include <random>
#include <utility>

#include "engines/shm/copy_trial.h"
#include "engines/shm/message_ring_tasks.h"
#include "engines/shm/private_memory.h"

namespace unisono::engines::shm {
namespace {

constexpr std::size_t unpublished_part = 8;  // of a ring at most, 1 / 8, has been read and counts as full for the sender

}  // namespace

MessageRing::MessageRing(std::shared_ptr<Segment> segment, int rank, const base::Environment& environment)
    : segment_(std::move(segment)),
      rank_(rank),
      range_(single_copy_range(environment, single_copy_rule(SingleCopyOf::messages))),
      sources_(static_cast<std::size_t>(segment_->ranks())),
      destinations_(static_cast<std::size_t>(segment_->ranks())) {}

std::unique_ptr<Task> MessageRing::send(int peer, const MessageHeader& header, const void* data) {
  return std::make_unique<SendTask>(*this, peer, header, data);
}

MessageCarrier::Tried MessageRing::try_send(int peer, const MessageHeader& header, const void* data) {
  const Destination& destination = destinations_[static_cast<std::size_t>(peer)];
  if (!destination.queue.empty()) return Tried::no_room;
  const std::uint64_t written = segment_->ring(rank_, peer).written.load(std::memory_order_relaxed);
  const std::uint64_t total = sizeof header + padded(header.bytes);
  if (space_to(peer, written, total) < total) return total <= segment_->ring_bytes() ? Tried::no_room : Tried::never;
  std::byte* const memory = segment_->ring_data(rank_, peer);
  into_ring(memory, segment_->ring_bytes(), written, &header, sizeof header);
  into_ring(memory, segment_->ring_bytes(), written + sizeof header, data, static_cast<std::size_t>(header.bytes));
  publish_written(peer, written + total);
  return Tried::sent;
}

std::uint64_t MessageRing::space_to(int peer, std::uint64_t written, std::uint64_t wanted) {
  std::uint64_t& read = destinations_[static_cast<std::size_t>(peer)].read;
  const std::uint64_t capacity = segment_->ring_bytes();
  if (capacity - (written - read) < wanted) read = segment_->ring(rank_, peer).read.load(std::memory_order_acquire);  // litmus: ring-room
  return capacity - (written - read);
}

void MessageRing::publish_written(int peer, std::uint64_t written) noexcept {
  segment_->ring(rank_, peer).written.store(written, std::memory_order_seq_cst);  // litmus: ring-written
  segment_->notifier(peer).notify();
}

bool MessageRing::has_bytes(int peer, std::uint64_t wanted) {
  Source& source = sources_[static_cast<std::size_t>(peer)];
  if (source.written - source.read < wanted)
    source.written = segment_->ring(peer, rank_).written.load(std::memory_order_acquire);  // litmus: ring-bytes
  return source.written - source.read >= wanted;
}

// A sender that waits for room finds it in the rest of the ring.
void MessageRing::publish_read(int peer) {
  Source& source = sources_[static_cast<std::size_t>(peer)];
  if (source.read - source.published < segment_->ring_bytes() / unpublished_part) return;
  source.published = source.read;
  segment_->ring(peer, rank_).read.store(source.read, std::memory_order_seq_cst);  // litmus: ring-read
  segment_->notifier(peer).notify();
}

std::optional<AnnouncedMessage> MessageRing::next(int peer) {
  Source& source = sources_[static_cast<std::size_t>(peer)];
  Incoming& incoming = source.incoming;
  if (incoming.is_active) pump(peer);
  if (incoming.is_active || !has_bytes(peer, sizeof(MessageHeader))) return std::nullopt;
  incoming.is_active = incoming.is_aside = true;
  incoming.ticket = ++source.tickets;
  MessageHeader& header = incoming.header;
  out_of_ring(&header, segment_->ring_data(peer, rank_), segment_->ring_bytes(), source.read, sizeof header);
  source.read += sizeof header;
  publish_read(peer);
  const std::uint64_t marks = header.bytes;
  header.bytes &= bytes_mask;
  if ((marks & lent_mark) != 0) {
    const AnnouncedMessage message{header, incoming.ticket};
    source.lent.emplace(message.ticket, marks >> place_shift & place_mask);
    incoming = Incoming{};
    return message;
  }
  if ((marks & asks_mark) != 0) try_reach(peer);
  return AnnouncedMessage{incoming.header, incoming.ticket};
}

void MessageRing::deliver(int peer, std::uint64_t ticket, const MessageHeader& header, Delivery& delivery) {
  Source& source = sources_[static_cast<std::size_t>(peer)];
  Incoming& incoming = source.incoming;
  if (incoming.is_active && incoming.ticket == ticket) {  // the rest goes to its destination
    if (delivery.to != nullptr) std::ranges::copy(incoming.aside, delivery.to);
    incoming.aside = {};
    incoming.is_aside = false;
    incoming.delivery = &delivery;
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
  Incoming& incoming = sources_[static_cast<std::size_t>(peer)].incoming;
  if (incoming.delivery == &delivery) incoming.delivery = nullptr;
  return false;
}

// A message that fits a ring whole needs no receive to leave. Without the variable the collectives' rule holds: from the size that the last trial of
// this process has found, up to eight times the second-level cache, since what does not fit the caches goes through the ring as fast.
bool MessageRing::may_lend(std::uint64_t bytes) const {
  if (!range_ || bytes + sizeof(MessageHeader) <= segment_->ring_bytes()) return false;
  const std::uint64_t kib = bytes >> 10;
  if (range_->up_to == 0) return kib >= range_->from;
  return kib < range_->up_to && bytes >= CopyTrial::known().value_or(CopyTrial::Found{}).from.value_or(0);
}

bool MessageRing::ask(int peer) {
  if (reach_of(peer) != Reach::untried) return false;
  if (word_ == 0) {
    std::random_device random;
    word_ = std::uint64_t{random()} << 32 | random() | 1U;  // not 0
  }
  segment_->ring(rank_, peer).card = {reinterpret_cast<std::uintptr_t>(&word_), word_};
  return true;
}

void MessageRing::try_reach(int peer) {
  RingControl& control = segment_->ring(peer, rank_);
  if (control.reads_sender.load(std::memory_order_relaxed) != static_cast<std::uint32_t>(Reach::untried)) return;
  const Reach reach = range_ && finds(*segment_, peer, control.card) ? Reach::yes : Reach::no;
  control.reads_sender.store(static_cast<std::uint32_t>(reach), std::memory_order_release);
}

void MessageRing::pump(int peer) {
  Source& source = sources_[static_cast<std::size_t>(peer)];
  Incoming& incoming = source.incoming;
  if (!incoming.is_active) return;
  const std::byte* memory = segment_->ring_data(peer, rank_);
  const std::uint64_t total = padded(incoming.header.bytes);
  has_bytes(peer, total - incoming.received);
  while (incoming.received < total && source.written != source.read) {
    const auto part =
        static_cast<std::size_t>(std::min({total - incoming.received, source.written - source.read, static_cast<std::uint64_t>(stride)}));
    take_part(incoming, memory, source.read, part);
    incoming.received += part;
    source.read += part;
    publish_read(peer);
  }
  if (incoming.received == total) end_message(source);
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

void MessageRing::end_message(Source& source) {
  Incoming& incoming = source.incoming;
  if (incoming.is_aside) source.aside.emplace(incoming.ticket, std::move(incoming.aside));
  else if (incoming.delivery != nullptr) incoming.delivery->is_done = true;
  incoming = Incoming{};
}

}  // namespace unisono::engines::shm
