#pragma once

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engines/shm/message_ring.h"
#include "engines/shm/staging.h"
#include "kernels/copy.h"

// The tasks of messages that do not leave, or arrive, at once.

namespace unisono::engines::shm {

inline constexpr std::size_t stride = std::size_t{32} << 10;  // bytes that are copied before the other side may see them
inline constexpr std::uint64_t ring_alignment = 16;           // of every message in a ring
constexpr std::uint64_t padded(std::uint64_t bytes) { return (bytes + ring_alignment - 1) & ~(ring_alignment - 1); }

// The length in a header that lies in a ring has room above it.
inline constexpr std::uint64_t asks_mark = std::uint64_t{1} << 63;  // the receiver may try whether it can read the sender's memory
inline constexpr std::uint64_t lent_mark = std::uint64_t{1} << 62;  // the elements lie at the sender; the place of their word stands below
inline constexpr int place_shift = 56;
inline constexpr std::uint64_t place_mask = RingControl::most_lent - 1;
inline constexpr std::uint64_t bytes_mask = (std::uint64_t{1} << place_shift) - 1;
static_assert(std::has_single_bit(RingControl::most_lent) && (place_mask << place_shift) < lent_mark);

// Copies between a ring and plain memory, at a position that wraps.
inline void into_ring(std::byte* ring, std::size_t capacity, std::uint64_t position, const void* from, std::size_t bytes) {
  const std::size_t at = position % capacity;
  const std::size_t first = std::min(bytes, capacity - at);
  Staging::copy(ring + at, from, first);
  Staging::copy(ring, static_cast<const std::byte*>(from) + first, bytes - first);
}
inline void out_of_ring(void* to, const std::byte* ring, std::size_t capacity, std::uint64_t position, std::size_t bytes) {
  const std::size_t at = position % capacity;
  const std::size_t first = std::min(bytes, capacity - at);
  if (first > 0) kernels::copy(to, ring + at, first);
  if (bytes > first) kernels::copy(static_cast<std::byte*>(to) + first, ring, bytes - first);
}

class MessageRing::SendTask final : public Task {
 public:
  SendTask(MessageRing& ring, int peer, const MessageHeader& header, const void* data)
      : ring_(ring), peer_(peer), data_(static_cast<const std::byte*>(data)), header_(header) {
    destination().queue.push_back(this);
  }
  ~SendTask() override {
    if (place_) control().lent[*place_].take_back();  // the group is over: the place is not used again
    else if (!done_) std::erase(destination().queue, this);
  }

  bool advance() override {
    if (done_) return true;
    if (place_) return is_returned();
    if (destination().queue.front() != this) return false;
    if (!header_sent_ && ring_.may_lend(header_.bytes) && ring_.reach_of(peer_) == Reach::yes) return lend();
    write();
    return done_;
  }
  std::vector<int> waiting_for() const override {
    if (done_) return {};
    return {peer_};
  }
  bool detach() override {
    if (done_) return true;
    if (place_) return false;
    std::vector<std::byte> rest(data_ + (sent_ - moved_), data_ + (header_.bytes - moved_));
    own_ = std::move(rest);
    data_ = own_.data();
    moved_ = sent_;
    return true;
  }

 private:
  Destination& destination() { return ring_.destinations_[static_cast<std::size_t>(peer_)]; }
  RingControl& control() { return ring_.segment_->ring(ring_.rank_, peer_); }

  /// Writes what fits into the ring.
  void write() {
    Segment& segment = *ring_.segment_;
    std::byte* memory = segment.ring_data(ring_.rank_, peer_);
    const std::size_t capacity = segment.ring_bytes();
    std::uint64_t written = control().written.load(std::memory_order_relaxed);
    std::uint64_t space = ring_.space_to(peer_, written, (header_sent_ ? 0 : sizeof header_) + padded(header_.bytes) - sent_);
    bool moved = false;
    if (!header_sent_) {
      if (space < sizeof header_) return;
      MessageHeader header = header_;
      if (ring_.may_lend(header_.bytes) && ring_.ask(peer_)) header.bytes |= asks_mark;
      into_ring(memory, capacity, written, &header, sizeof header);
      written += sizeof header;
      space -= sizeof header;
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
    if (done_) destination().queue.pop_front();
  }

  /// Writes the header alone, where there is a free place for the word. Returns false: the receiver has yet to come.
  bool lend() {
    const auto place = static_cast<std::size_t>(std::countr_one(destination().lent));
    if (place == RingControl::most_lent) return false;
    const std::uint64_t written = control().written.load(std::memory_order_relaxed);
    if (ring_.space_to(peer_, written, sizeof header_) < sizeof header_) return false;
    MessageHeader header = header_;
    header.bytes |= lent_mark | std::uint64_t{place} << place_shift;
    destination().lent |= std::uint64_t{1} << place;
    control().lent[place].lend(reinterpret_cast<std::uintptr_t>(data_));
    place_ = place;
    destination().queue.pop_front();
    into_ring(ring_.segment_->ring_data(ring_.rank_, peer_), ring_.segment_->ring_bytes(), written, &header, sizeof header);
    ring_.publish_written(peer_, written + sizeof header);
    return false;
  }
  bool is_returned() {
    if (!control().lent[*place_].take_returned()) return false;
    destination().lent &= ~(std::uint64_t{1} << *place_);
    place_.reset();
    done_ = true;
    return true;
  }

  MessageRing& ring_;
  int peer_;
  const std::byte* data_;
  std::vector<std::byte> own_;
  MessageHeader header_;
  std::uint64_t sent_ = 0;
  std::uint64_t moved_ = 0;           // the position in the message at which data_ begins
  std::optional<std::size_t> place_;  // of the word by which data_ is lent
  bool header_sent_ = false;
  bool done_ = false;
};

/// Copies a message out of the sender's memory. Where that cannot be, the sender has ended, or has given up: it stands still, and whoever waits for
/// it finds out.
class MessageRing::ReadTask final : public Task {
 public:
  ReadTask(MessageRing& ring, int peer, std::size_t place, std::byte* to, std::uint64_t bytes)
      : ring_(ring), peer_(peer), word_(ring.segment_->ring(peer, ring.rank_).lent[place]), to_(to), bytes_(bytes) {}
  ~ReadTask() override {
    if (state_ == State::begins) word_.decline();
  }

  bool advance() override {
    if (state_ != State::begins) return state_ == State::done;
    state_ = State::stands_still;
    const auto address = word_.begin_read();
    if (!address) return false;
    const int error = to_ == nullptr ? 0 : read_memory(*ring_.segment_, peer_, to_, *address, static_cast<std::size_t>(bytes_));
    if (error == ESRCH || !word_.end_read(*address)) return false;
    if (error != 0) throw_unreadable(*ring_.segment_, ring_.rank_, peer_, error, "it was sent");
    ring_.segment_->notifier(peer_).notify();
    state_ = State::done;
    return true;
  }
  std::vector<int> waiting_for() const override {
    if (state_ == State::done) return {};
    return {peer_};
  }

 private:
  enum class State { begins, stands_still, done };
  MessageRing& ring_;
  int peer_;
  LentBuffer& word_;
  std::byte* to_;
  std::uint64_t bytes_;
  State state_ = State::begins;
};

}  // namespace unisono::engines::shm
