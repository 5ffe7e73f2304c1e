#include "engines/shm/message_ring.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>
#include <vector>

#include "base/notifier.h"
#include "engines/shm/private_memory.h"
#include "engines/shm/ring_format.h"
#include "engines/shm/staging.h"
#include "unisono/task.h"

namespace unisono::engines::shm {

/// A message that does not leave at once.
class RingSendTask final : public Task {
 public:
  RingSendTask(RingSender& sender, int peer, const MessageHeader& header, const void* data)
      : sender_(sender),
        peer_(peer),
        data_(static_cast<const std::byte*>(data)),
        header_(header),
        lends_(sender.lends(peer, header.bytes) == MessageCarrier::Lending::now) {
    destination().queue.push_back(this);
  }
  ~RingSendTask() override {
    if (place_) control().lent[*place_].take_back();  // the group is over: the place is not used again
    else if (!done_) std::erase(destination().queue, this);
  }

  bool advance() override {
    if (done_) return true;
    if (place_) return is_returned() || (lends_ && is_time_to_copy() && leave_copy());
    if (destination().queue.front() != this) return false;
    if (!is_announced_ && (lends_ || (sender_.may_lend(peer_, header_.bytes) && sender_.reach_of(peer_) == Reach::yes))) return lend();
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
  RingSender::Destination& destination() { return sender_.to(peer_); }
  RingControl& control() { return sender_.control(peer_); }

  /// Writes what fits into the ring.
  void write() {
    if (!is_announced_) {
      if (!sender_.has_envelope_to(peer_)) return;
      if (header_.bytes <= Envelope::room) {
        sender_.announce(peer_, header_, 0, data_);
        return end();
      }
      sender_.announce(peer_, header_, sender_.asks_mark_for(peer_, header_.bytes), nullptr);
      is_announced_ = true;
    }
    RingSender::Destination& to = destination();
    std::uint64_t space = sender_.space_to(peer_, padded(header_.bytes) - sent_);
    while (sent_ < header_.bytes && space > 0) {
      const std::uint64_t left = header_.bytes - sent_;
      const auto part = static_cast<std::size_t>(std::min({left, space, static_cast<std::uint64_t>(stride())}));
      sender_.copy_in(peer_, data_ + (sent_ - moved_), part);
      const std::uint64_t taken = part == left ? padded(part) : part;  // space is of whole lines, and so is all of a message before its end
      sent_ += part;
      to.written += taken;
      space -= taken;
      sender_.publish_written(peer_);
    }
    if (sent_ == header_.bytes) end();
  }
  void end() {
    done_ = true;
    destination().queue.pop_front();
  }

  /// Announces the message, where there is a free place for the word. Returns false: the receiver has yet to come.
  bool lend() {
    if (destination().copies != 0) sender_.reclaim(peer_);
    // A large message leaves the places with memory to others.
    const std::uint64_t not_free = destination().lent | (lends_ ? 0 : places_with_memory);
    const auto place = static_cast<std::size_t>(std::countr_one(not_free));
    if (place == RingControl::most_lent || !sender_.has_envelope_to(peer_)) return false;
    destination().lent |= std::uint64_t{1} << place;
    control().lent[place].lend(reinterpret_cast<std::uintptr_t>(data_));
    place_ = place;
    destination().queue.pop_front();
    sender_.announce(peer_, header_, lent_mark | static_cast<std::uint32_t>(place) << place_shift, nullptr);
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
    Staging::copy(sender_.copy_at(peer_, *place_), data_, static_cast<std::size_t>(header_.bytes));
    if (!control().lent[*place_].leave_copy(address)) return false;
    destination().copies |= std::uint64_t{1} << *place_;
    place_.reset();
    done_ = true;
    return true;
  }

  RingSender& sender_;
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

MessageRing::MessageRing(std::shared_ptr<Segment> segment, int rank, const base::Environment& environment)
    : MessageRing(std::move(segment), rank, single_copy_range(environment, single_copy_rule())) {}

MessageRing::MessageRing(std::shared_ptr<Segment> segment, int rank, const std::optional<SingleCopyRange>& range)
    : segment_(std::move(segment)), sender_(*segment_, rank, range), receiver_(*segment_, rank, range.has_value()) {
  base::AsymmetricFence::register_process();
}

std::unique_ptr<Task> MessageRing::send(int peer, const MessageHeader& header, const void* data) {
  return std::make_unique<RingSendTask>(sender_, peer, header, data);
}

void MessageRing::advance(int peer, Delivery& delivery) {
  if (delivery.task) delivery.is_done = delivery.task->advance();
  else if (!delivery.is_done) receiver_.pump(peer);
}

bool MessageRing::withdraw(int peer, std::uint64_t, Delivery& delivery) noexcept {
  receiver_.withdraw(peer, delivery);
  return false;
}

}  // namespace unisono::engines::shm
