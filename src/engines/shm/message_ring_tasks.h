#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
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

inline constexpr std::size_t stride = std::size_t{8} << 10;  // bytes that are copied before the other side may see them
inline constexpr std::uint64_t ring_alignment = cache_line;  // of the elements of every message in a ring
constexpr std::uint64_t padded(std::uint64_t bytes) { return (bytes + ring_alignment - 1) & ~(ring_alignment - 1); }
/// Returns the bytes of a ring that a message takes.
constexpr std::uint64_t in_ring(std::uint64_t bytes) { return bytes <= Envelope::room ? 0 : padded(bytes); }

// The marks of an envelope, with the place of a lent message's word above them.
inline constexpr std::uint32_t asks_mark = 1;   // the receiver may try whether it can read the sender's memory
inline constexpr std::uint32_t lent_mark = 2;   // the elements lie at the sender
inline constexpr std::uint32_t whole_mark = 4;  // all elements are in the ring
inline constexpr int place_shift = 8;

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

/// The bits of the places that have memory in the segment.
inline constexpr std::uint64_t places_with_memory = (std::uint64_t{1} << RingControl::backed) - 1;

class MessageRing::SendTask final : public Task {
 public:
  SendTask(MessageRing& ring, int peer, const MessageHeader& header, const void* data)
      : ring_(ring),
        peer_(peer),
        data_(static_cast<const std::byte*>(data)),
        header_(header),
        lends_(ring.lends(peer, header.bytes) == Lending::now) {
    destination().queue.push_back(this);
  }
  ~SendTask() override {
    if (place_) control().lent[*place_].take_back();  // the group is over: the place is not used again
    else if (!done_) std::erase(destination().queue, this);
  }

  bool advance() override {
    if (done_) return true;
    if (place_) return is_returned() || (lends_ && is_time_to_copy() && leave_copy());
    if (destination().queue.front() != this) return false;
    if (!is_announced_ && (lends_ || (ring_.may_lend(peer_, header_.bytes) && ring_.reach_of(peer_) == Reach::yes))) return lend();
    write();
    return done_;
  }
  std::vector<int> waiting_for() const override {
    if (done_) return {};
    return {peer_};
  }
  // The receiver need not come.
  bool wakes_waiter() const override { return !place_ || !lends_; }
  bool detach() override {
    if (done_) return true;
    if (place_) return lends_ && leave_copy();
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
    if (!is_announced_) {
      if (!ring_.has_envelope_to(peer_)) return;
      if (header_.bytes <= Envelope::room) {
        ring_.announce(peer_, header_, 0, data_);
        return end();
      }
      ring_.announce(peer_, header_, ring_.asks_mark_for(peer_, header_.bytes), nullptr);
      is_announced_ = true;
    }
    Destination& to = destination();
    Segment& segment = *ring_.segment_;
    std::byte* const memory = segment.ring_data(ring_.rank_, peer_);
    std::uint64_t space = ring_.space_to(peer_, padded(header_.bytes) - sent_);
    while (sent_ < header_.bytes && space > 0) {
      const std::uint64_t left = header_.bytes - sent_;
      const auto part = static_cast<std::size_t>(std::min({left, space, static_cast<std::uint64_t>(stride)}));
      into_ring(memory, segment.ring_bytes(), to.written, data_ + (sent_ - moved_), part);
      const std::uint64_t taken = part == left ? padded(part) : part;  // space is of whole lines, and so is all of a message before its end
      sent_ += part;
      to.written += taken;
      space -= taken;
      ring_.publish_written(peer_);
    }
    if (sent_ == header_.bytes) end();
  }
  void end() {
    done_ = true;
    destination().queue.pop_front();
  }

  /// Announces the message, where there is a free place for the word. Returns false: the receiver has yet to come.
  bool lend() {
    if (destination().copies != 0) ring_.reclaim(peer_);
    // A large message leaves the places with memory to others.
    const std::uint64_t not_free = destination().lent | (lends_ ? 0 : places_with_memory);
    const auto place = static_cast<std::size_t>(std::countr_one(not_free));
    if (place == RingControl::most_lent || !ring_.has_envelope_to(peer_)) return false;
    destination().lent |= std::uint64_t{1} << place;
    control().lent[place].lend(reinterpret_cast<std::uintptr_t>(data_));
    place_ = place;
    destination().queue.pop_front();
    ring_.announce(peer_, header_, lent_mark | static_cast<std::uint32_t>(place) << place_shift, nullptr);
    return false;
  }
  bool is_returned() {
    if (!control().lent[*place_].take_returned()) return false;
    destination().lent &= ~(std::uint64_t{1} << *place_);
    destination().last_sign = base::Clock::now();
    place_.reset();
    done_ = true;
    return true;
  }
  /// Returns true once the receiver has shown no sign for a while, since the memory was lent.
  bool is_time_to_copy() {
    constexpr std::chrono::microseconds patience{10};  // about as long as the copy takes
    constexpr unsigned looks = 8;                      // at the clock
    if (looks_++ % looks != 0) return false;
    const auto now = base::Clock::now();
    if (looks_ == 1) lent_at_ = now;
    return now - std::max(lent_at_, destination().last_sign) > patience;
  }
  /// Takes the memory back and leaves a copy. Returns false where the receiver reads it, which is soon over.
  bool leave_copy() {
    const auto address = reinterpret_cast<std::uintptr_t>(data_);
    if (!control().lent[*place_].is_lent(address)) return false;
    Staging::copy(ring_.segment_->lent_data(ring_.rank_, peer_, *place_), data_, static_cast<std::size_t>(header_.bytes));
    if (!control().lent[*place_].leave_copy(address)) return false;
    destination().copies |= std::uint64_t{1} << *place_;
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
  const bool lends_;                  // for a moment, a message that needs no receive
  unsigned looks_ = 0;
  base::Clock::time_point lent_at_{};
  bool is_announced_ = false;
  bool done_ = false;
};

/// Copies a message out of the sender's memory. Where that cannot be, the sender has ended, or has given up: it stands still, and whoever waits for
/// it finds out.
class MessageRing::ReadTask final : public Task {
 public:
  ReadTask(MessageRing& ring, int peer, std::size_t place, std::byte* to, std::uint64_t bytes)
      : ring_(ring), peer_(peer), place_(place), word_(ring.segment_->ring(peer, ring.rank_).lent[place]), to_(to), bytes_(bytes) {}
  ~ReadTask() override {
    if (state_ == State::begins) word_.decline();
  }

  bool advance() override {
    if (state_ != State::begins) return state_ == State::done;
    state_ = State::stands_still;
    const auto address = word_.begin_read();
    if (!address) return false;
    const auto bytes = static_cast<std::size_t>(bytes_);
    int error = 0;
    if (to_ != nullptr && *address == 0) kernels::copy(to_, ring_.segment_->lent_data(peer_, ring_.rank_, place_), bytes);
    else if (to_ != nullptr) error = read_memory(*ring_.segment_, peer_, to_, *address, bytes);
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
  std::size_t place_;
  LentBuffer& word_;
  std::byte* to_;
  std::uint64_t bytes_;
  State state_ = State::begins;
};

}  // namespace unisono::engines::shm
