#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "base/eager.h"
#include "engines/message.h"
#include "engines/shm/private_memory.h"
#include "engines/shm/segment.h"

namespace unisono::engines::shm {

class RingSendTask;

/// The messages of one rank to the others of a segment: what is written into the rings and lent, and what the receivers have given back. See
/// MessageRing.
class RingSender {
 public:
  using Tried = MessageCarrier::Tried;
  using Lending = MessageCarrier::Lending;
  struct Destination {
    std::uint64_t written = 0;            // bytes of the ring
    std::uint64_t announced = 0;          // messages
    std::uint64_t read = 0, opened = 0;   // by the receiver, as this rank has seen last
    std::deque<RingSendTask*> queue;      // in order; the first one writes
    std::uint64_t lent = 0;               // a bit for each place at which something is lent
    std::uint64_t copies = 0;             // of them hold copies, which nobody waits for
    bool both_ways = false;               // messages of the receiver are wanted as well
    base::Clock::time_point last_sign{};  // of the receiver: the last time it has returned something
  };

  /// `range`: of messages that may be lent.
  RingSender(Segment& segment, int rank, std::optional<SingleCopyRange> range)
      : segment_(segment), rank_(rank), range_(range), destinations_(static_cast<std::size_t>(segment.ranks())) {}

  Tried try_send(int peer, const MessageHeader& header, const void* data);
  Lending lends(int peer, std::uint64_t bytes);
  bool leaves_to_receiver(int peer, std::uint64_t bytes);

  // For a message that does not leave at once.

  Destination& to(int peer) { return destinations_[static_cast<std::size_t>(peer)]; }
  RingControl& control(int peer) const { return segment_.ring(rank_, peer); }
  /// Returns the free bytes of the ring to a peer; what is known of them, where that is at least `wanted`.
  std::uint64_t space_to(int peer, std::uint64_t wanted);
  bool has_envelope_to(int peer);
  /// Uses the next envelope, which is free. `elements`: those that lie in it; null: they are elsewhere.
  void announce(int peer, const MessageHeader& header, std::uint32_t marks, const void* elements) noexcept;
  /// Copies a part of a message behind what is written. It counts as written later.
  void copy_in(int peer, const void* from, std::size_t bytes);
  void publish_written(int peer) noexcept;
  /// Returns true for a message that waits for its receiver, as long as that takes, and had better be lent.
  bool may_lend(int peer, std::uint64_t bytes) const { return bytes > base::eager_bytes && pays_to_lend(peer, bytes); }
  /// Frees the places of copies that the receiver has returned.
  void reclaim(int peer);
  Reach reach_of(int peer) const { return static_cast<Reach>(control(peer).reads_sender.load(std::memory_order_acquire)); }
  /// Prepares for asking the receiver, with a message, to try whether it can read this rank's memory. Returns the mark for that; 0 where it has
  /// tried, or the message is not worth it.
  std::uint32_t asks_mark_for(int peer, std::uint64_t bytes);
  /// Returns the memory for the copy of a message that was lent at that place.
  std::byte* copy_at(int peer, std::size_t place) const { return segment_.lent_data(rank_, peer, place); }

 private:
  /// Returns true where a copy by the receiver is faster.
  bool pays_to_lend(int peer, std::uint64_t bytes) const;

  Segment& segment_;
  int rank_;
  std::optional<SingleCopyRange> range_;
  std::uint64_t word_ = 0;  // that receivers look for
  std::vector<Destination> destinations_;
};

}  // namespace unisono::engines::shm
