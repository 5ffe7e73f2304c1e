#include "engines/shm/message_ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/copy.h"

namespace unisono::engines::shm {
namespace {

constexpr std::size_t stride = std::size_t{32} << 10;  // bytes that are copied before the other side may see them
constexpr std::size_t unpublished_part = 8;            // of a ring at most, 1 / 8, has been read and counts as full for the sender
constexpr std::uint64_t alignment = 16;                // of every message in a ring
constexpr std::uint64_t padded(std::uint64_t bytes) { return (bytes + alignment - 1) & ~(alignment - 1); }

// Copies between a ring and plain memory, at a position that wraps.
void into_ring(std::byte* ring, std::size_t capacity, std::uint64_t position, const void* from, std::size_t bytes) {
  const std::size_t at = position % capacity;
  const std::size_t first = std::min(bytes, capacity - at);
  if (first > 0) kernels::copy(ring + at, from, first);
  if (bytes > first) kernels::copy(ring, static_cast<const std::byte*>(from) + first, bytes - first);
}
void out_of_ring(void* to, const std::byte* ring, std::size_t capacity, std::uint64_t position, std::size_t bytes) {
  const std::size_t at = position % capacity;
  const std::size_t first = std::min(bytes, capacity - at);
  if (first > 0) kernels::copy(to, ring + at, first);
  if (bytes > first) kernels::copy(static_cast<std::byte*>(to) + first, ring, bytes - first);
}

}  // namespace

class MessageRing::SendTask final : public Task {
 public:
  SendTask(MessageRing& ring, int peer, const MessageHeader& header, const void* data)
      : ring_(ring), peer_(peer), data_(static_cast<const std::byte*>(data)), header_(header) {
    queue().push_back(this);
  }
  ~SendTask() override {
    if (!done_) std::erase(queue(), this);
  }

  bool advance() override {
    if (done_) return true;
    if (queue().front() != this) return false;
    Segment& segment = *ring_.segment_;
    RingControl& control = segment.ring(ring_.rank_, peer_);
    std::byte* memory = segment.ring_data(ring_.rank_, peer_);
    const std::size_t capacity = segment.ring_bytes();
    std::uint64_t written = control.written.load(std::memory_order_relaxed);
    std::uint64_t space = ring_.space_to(peer_, written, (header_sent_ ? 0 : sizeof header_) + padded(header_.bytes) - sent_);
    bool moved = false;
    if (!header_sent_) {
      if (space < sizeof header_) return false;
      into_ring(memory, capacity, written, &header_, sizeof header_);
      written += sizeof header_;
      space -= sizeof header_;
      header_sent_ = moved = true;
    }
    for (;;) {
      const std::uint64_t left = header_.bytes - sent_;
      const std::uint64_t padding = padded(header_.bytes) - header_.bytes;
      if (left == 0 || space == 0) {
        if (left == 0 && space >= padding) {
          written += padding;
          done_ = true;
        }
        break;
      }
      const auto part = static_cast<std::size_t>(std::min({left, space, static_cast<std::uint64_t>(stride)}));
      into_ring(memory, capacity, written, data_ + (sent_ - moved_), part);
      sent_ += part;
      written += part;
      space -= part;
      moved = true;
      if (left > part) ring_.publish_written(peer_, written);
    }
    if (moved || done_) ring_.publish_written(peer_, written);
    if (done_) queue().pop_front();
    return done_;
  }
  std::vector<int> waiting_for() const override {
    if (done_) return {};
    return {peer_};
  }
  bool detach() override {
    if (done_) return true;
    std::vector<std::byte> rest(data_ + (sent_ - moved_), data_ + (header_.bytes - moved_));
    own_ = std::move(rest);
    data_ = own_.data();
    moved_ = sent_;
    return true;
  }

 private:
  std::deque<SendTask*>& queue() { return ring_.destinations_[static_cast<std::size_t>(peer_)].queue; }

  MessageRing& ring_;
  int peer_;
  const std::byte* data_;
  std::vector<std::byte> own_;
  MessageHeader header_;
  std::uint64_t sent_ = 0;
  std::uint64_t moved_ = 0;  // the position in the message at which data_ begins
  bool header_sent_ = false;
  bool done_ = false;
};

MessageRing::MessageRing(std::shared_ptr<Segment> segment, int rank)
    : segment_(std::move(segment)),
      rank_(rank),
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
  if (capacity - (written - read) < wanted) read = segment_->ring(rank_, peer).read.load(std::memory_order_acquire);
  return capacity - (written - read);
}

void MessageRing::publish_written(int peer, std::uint64_t written) noexcept {
  segment_->ring(rank_, peer).written.store(written, std::memory_order_seq_cst);
  segment_->notifier(peer).notify();
}

bool MessageRing::has_bytes(int peer, std::uint64_t wanted) {
  Source& source = sources_[static_cast<std::size_t>(peer)];
  if (source.written - source.read < wanted) source.written = segment_->ring(peer, rank_).written.load(std::memory_order_acquire);
  return source.written - source.read >= wanted;
}

// A sender that waits for room finds it in the rest of the ring.
void MessageRing::publish_read(int peer) {
  Source& source = sources_[static_cast<std::size_t>(peer)];
  if (source.read - source.published < segment_->ring_bytes() / unpublished_part) return;
  source.published = source.read;
  segment_->ring(peer, rank_).read.store(source.read, std::memory_order_seq_cst);
  segment_->notifier(peer).notify();
}

std::optional<AnnouncedMessage> MessageRing::next(int peer) {
  Source& source = sources_[static_cast<std::size_t>(peer)];
  Incoming& incoming = source.incoming;
  if (incoming.is_active) pump(peer);
  if (incoming.is_active || !has_bytes(peer, sizeof(MessageHeader))) return std::nullopt;
  incoming.is_active = incoming.is_aside = true;
  incoming.ticket = ++source.tickets;
  out_of_ring(&incoming.header, segment_->ring_data(peer, rank_), segment_->ring_bytes(), source.read, sizeof incoming.header);
  source.read += sizeof incoming.header;
  publish_read(peer);
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
  const auto whole = source.aside.find(ticket);
  if (delivery.to != nullptr && header.bytes > 0) std::ranges::copy(whole->second, delivery.to);
  source.aside.erase(whole);
  delivery.is_done = true;
}

void MessageRing::advance(int peer, Delivery& delivery) {
  if (!delivery.is_done) pump(peer);
}

bool MessageRing::withdraw(int peer, std::uint64_t, Delivery& delivery) noexcept {
  Incoming& incoming = sources_[static_cast<std::size_t>(peer)].incoming;
  if (incoming.delivery == &delivery) incoming.delivery = nullptr;
  return false;
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
