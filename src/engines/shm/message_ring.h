#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "base/eager.h"
#include "base/environment.h"
#include "engines/message.h"
#include "engines/shm/segment.h"

namespace unisono::engines::shm {

/// Carries messages between the ranks of a segment. Each ordered pair has envelopes and a ring of bytes in shared memory. An envelope announces a
/// message, and holds the elements of a small one; those of others are streamed through the ring: the receiver of a large message copies out while
/// the sender copies in; what fits whole is sent at once. The arrived part of a message that no receive has taken is kept aside.
///
/// A message of more than base::eager_bytes has to wait for its receiver anyway. Where the receiver can read the sender's private memory, there is an
/// envelope alone: the sender lends the memory (LentBuffer), and the receiver copies out of it, once, when the receive is posted. The sender has no
/// work with it. The first such message of a pair goes through the ring as others do: with it the receiver tries whether it can.
///
/// A message that may leave without a receive is lent for some microseconds only. Then the sender takes its memory back and leaves a copy in the
/// segment, so that the message outlives its sender. There is room for a few such copies; without, the message goes through the ring.
///
/// A receiver looks at the next envelope alone, and a small message costs one line that goes from one core to the other. Both sides keep what they
/// have seen of the other's counters and look again only where that does not suffice, and the receiver says what it has read once for many small
/// messages.
class MessageRing final : public MessageCarrier {
 public:
  /// `environment`: for UNISONO_SINGLE_COPY.
  MessageRing(std::shared_ptr<Segment> segment, int rank, const base::Environment& environment = base::Environment::process());

  void note_receives(int peer, bool any) override { to(peer).both_ways = any; }
  std::unique_ptr<Task> send(int peer, const MessageHeader& header, const void* data) override;
  Tried try_send(int peer, const MessageHeader& header, const void* data) override;
  Lending lends(int peer, std::uint64_t bytes) override;
  bool leaves_to_receiver(int peer, std::uint64_t bytes) override;
  std::optional<AnnouncedMessage> next(int peer) override;
  void progress(int peer) override { pump(peer); }
  void deliver(int peer, std::uint64_t ticket, const MessageHeader& header, Delivery& delivery) override;
  void advance(int peer, Delivery& delivery) override;
  bool withdraw(int peer, std::uint64_t ticket, Delivery& delivery) noexcept override;

 private:
  class SendTask;
  class ReadTask;
  /// The message that is being read from a ring.
  struct Incoming {
    bool is_active = false;
    bool is_aside = false;  // its elements go to `aside`
    std::uint64_t ticket = 0;
    MessageHeader header;
    std::uint64_t received = 0;
    Delivery* delivery = nullptr;         // null and not aside: the elements are discarded
    const std::byte* elements = nullptr;  // in the envelope
    std::vector<std::byte> aside;
  };
  struct Source {
    std::uint64_t read = 0;                                  // bytes of the ring
    std::uint64_t written = 0;                               // bytes, as far as this rank knows
    std::uint64_t opened = 0;                                // envelopes that are done with
    std::uint64_t published_read = 0, published_opened = 0;  // that the sender knows
    Incoming incoming;
    std::uint64_t tickets = 0;
    std::map<std::uint64_t, std::vector<std::byte>> aside;  // whole messages that no receive has taken, by ticket
    std::map<std::uint64_t, std::size_t> lent;              // the places of those that lie at the sender, by ticket
  };

  struct Destination {
    std::uint64_t written = 0;            // bytes of the ring
    std::uint64_t announced = 0;          // messages
    std::uint64_t read = 0, opened = 0;   // by the receiver, as this rank has seen last
    std::deque<SendTask*> queue;          // in order; the first one writes
    std::uint64_t lent = 0;               // a bit for each place at which something is lent
    std::uint64_t copies = 0;             // of them hold copies, which nobody waits for
    bool both_ways = false;               // messages of the receiver are wanted as well
    base::Clock::time_point last_sign{};  // of the receiver: the last time it has returned something
  };

  Destination& to(int peer) { return destinations_[static_cast<std::size_t>(peer)]; }
  Source& from(int peer) { return sources_[static_cast<std::size_t>(peer)]; }
  /// Returns the free bytes of the ring to a peer; what is known of them, where that is at least `wanted`.
  std::uint64_t space_to(int peer, std::uint64_t wanted);
  bool has_envelope_to(int peer);
  /// Uses the next envelope, which is free. `elements`: those that lie in it; null: they are elsewhere.
  void announce(int peer, const MessageHeader& header, std::uint32_t marks, const void* elements) noexcept;
  /// Tells the sender what has been read, if that is enough to be worth it.
  void publish_read(int peer);
  void publish_written(int peer) noexcept;
  /// Moves the bytes in the ring of one source to their destination.
  void pump(int source);
  void take_part(Incoming& incoming, const std::byte* memory, std::uint64_t position, std::size_t part);
  void end_message(int peer);
  /// Returns true where a copy by the receiver is faster.
  bool pays_to_lend(int peer, std::uint64_t bytes) const;
  /// Returns true for a message that waits for its receiver, as long as that takes, and had better be lent.
  bool may_lend(int peer, std::uint64_t bytes) const { return bytes > base::eager_bytes && pays_to_lend(peer, bytes); }
  /// Frees the places of copies that the receiver has returned.
  void reclaim(int peer);
  Reach reach_of(int peer) const { return static_cast<Reach>(segment_->ring(rank_, peer).reads_sender.load(std::memory_order_acquire)); }
  /// Prepares for asking the receiver, with a message, to try whether it can read this rank's memory. Returns the mark for that; 0 where it has
  /// tried, or the message is not worth it.
  std::uint32_t asks_mark_for(int peer, std::uint64_t bytes);
  /// Tries whether this rank can read the memory of the sender, which has asked.
  void try_reach(int peer);

  std::shared_ptr<Segment> segment_;
  int rank_;
  std::optional<SingleCopyRange> range_;  // of messages that may be lent
  std::uint64_t word_ = 0;                // that receivers look for
  std::vector<Source> sources_;
  std::vector<Destination> destinations_;
};

}  // namespace unisono::engines::shm
