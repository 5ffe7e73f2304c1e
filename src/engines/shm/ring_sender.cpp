#include "engines/shm/ring_sender.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>

#include "engines/shm/private_memory.h"
#include "engines/shm/ring_format.h"
#include "engines/shm/staging.h"

namespace unisono::engines::shm {

MessageCarrier::Tried RingSender::try_send(int peer, const MessageHeader& header, const void* data) {
  Destination& destination = to(peer);
  if (!destination.queue.empty() || !has_envelope_to(peer)) return Tried::no_room;
  if (header.bytes <= Envelope::room) {
    announce(peer, header, whole_mark, data);
    return Tried::sent;
  }
  const std::uint64_t total = padded(header.bytes);
  if (space_to(peer, total) < total) return total <= segment_.ring_bytes() ? Tried::no_room : Tried::never;
  if (header.bytes <= stride()) {
    copy_in(peer, data, static_cast<std::size_t>(header.bytes));
    destination.written += total;
    announce(peer, header, whole_mark | asks_mark_for(peer, header.bytes), nullptr);
    return Tried::sent;
  }
  announce(peer, header, asks_mark_for(peer, header.bytes), nullptr);
  for (std::uint64_t at = 0; at < header.bytes;) {  // another thread may change the stride meanwhile
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(stride(), header.bytes - at));
    copy_in(peer, static_cast<const std::byte*>(data) + at, part);
    destination.written += padded(part);
    publish_written(peer);
    at += part;
  }
  return Tried::sent;
}

std::uint64_t RingSender::space_to(int peer, std::uint64_t wanted) {
  Destination& destination = to(peer);
  const std::uint64_t capacity = segment_.ring_bytes();
  if (capacity - (destination.written - destination.read) < wanted)
    destination.read = segment_.ring(rank_, peer).read.load(std::memory_order_acquire);  // litmus: ring-room
  return capacity - (destination.written - destination.read);
}

bool RingSender::has_envelope_to(int peer) {
  Destination& destination = to(peer);
  if (destination.announced - destination.opened < Envelope::count) return true;
  destination.opened = segment_.ring(rank_, peer).opened.load(std::memory_order_acquire);  // litmus: envelope-room
  return destination.announced - destination.opened < Envelope::count;
}

void RingSender::announce(int peer, const MessageHeader& header, std::uint32_t marks, const void* elements) noexcept {
  Destination& destination = to(peer);
  Envelope& envelope = segment_.envelope(rank_, peer, destination.announced);
  envelope.kind = header.kind;
  envelope.tag = header.tag;
  envelope.marks = marks;
  envelope.bytes = header.bytes;
  if (elements != nullptr) std::memcpy(envelope.elements, elements, static_cast<std::size_t>(header.bytes));
  envelope.number.store(static_cast<std::uint32_t>(++destination.announced), std::memory_order_release);  // litmus: envelope-number
  segment_.notifier(peer).notify_often();
}

void RingSender::copy_in(int peer, const void* from, std::size_t bytes) {
  into_ring(segment_.ring_data(rank_, peer), segment_.ring_bytes(), to(peer).written, from, bytes);
}

void RingSender::publish_written(int peer) noexcept {
  segment_.ring(rank_, peer).written.store(to(peer).written, std::memory_order_release);  // litmus: ring-written
  segment_.notifier(peer).notify_often();
}

// Without the variable the way follows from how slots are written (Staging). Through the caches a ring is faster than the system. Past them it is
// faster if messages go in one direction: each side makes one of the two copies. Before that is known, what does not fit the caches goes through the
// ring.
bool RingSender::pays_to_lend(int peer, std::uint64_t bytes) const {
  constexpr std::uint64_t least_both_ways = std::uint64_t{64} << 10;
  if (!range_ || bytes <= Envelope::room) return false;
  const bool both_ways = destinations_[static_cast<std::size_t>(peer)].both_ways;
  bool pays = bytes >= std::uint64_t{range_->from} << 10;
  if (range_->up_to != 0) {
    const StagingWord faster = Staging::word();
    if (faster == StagingWord::nothing) pays = pays && (both_ways || bytes < std::uint64_t{range_->up_to} << 10);
    else pays = faster == StagingWord::past_caches && both_ways && bytes >= least_both_ways;
  }
  return pays && may_be_read();
}

// A smaller message than least_lent is through the ring before its receiver has taken it out of this rank's memory. A message that was posted behind
// others keeps their order.
MessageCarrier::Lending RingSender::lends(int peer, std::uint64_t bytes) {
  constexpr std::uint64_t least_lent = std::uint64_t{32} << 10;
  const bool is_short = range_ && range_->up_to != 0 && bytes < least_lent;
  if (bytes > base::eager_bytes || is_short || !pays_to_lend(peer, bytes) || reach_of(peer) != Reach::yes) return Lending::no;
  const Destination& destination = to(peer);
  if (!destination.queue.empty()) return Lending::no;
  if (destination.copies != 0) reclaim(peer);
  return std::countr_one(destination.lent) < static_cast<int>(RingControl::backed) ? Lending::now : Lending::later;
}

bool RingSender::leaves_to_receiver(int peer, std::uint64_t bytes) {
  const Destination& destination = to(peer);
  return may_lend(peer, bytes) && reach_of(peer) == Reach::yes && destination.queue.empty() && ~(destination.lent | places_with_memory) != 0 &&
         has_envelope_to(peer);
}

void RingSender::reclaim(int peer) {
  Destination& destination = to(peer);
  for (std::uint64_t left = destination.copies; left != 0; left &= left - 1) {
    const auto place = static_cast<std::size_t>(std::countr_zero(left));
    if (!segment_.ring(rank_, peer).lent[place].take_returned()) continue;
    destination.copies &= ~(std::uint64_t{1} << place);
    destination.lent &= ~(std::uint64_t{1} << place);
  }
}

std::uint32_t RingSender::asks_mark_for(int peer, std::uint64_t bytes) {
  if (reach_of(peer) != Reach::untried || !pays_to_lend(peer, bytes)) return 0;
  if (word_ == 0) {
    std::random_device random;
    word_ = std::uint64_t{random()} << 32 | random() | 1U;  // not 0
  }
  // The receiver may read it from the first message on that asks.
  if (PrivateCard& card = segment_.ring(rank_, peer).card; card.word == 0) card = {reinterpret_cast<std::uintptr_t>(&word_), word_};
  return asks_mark;
}

}  // namespace unisono::engines::shm
