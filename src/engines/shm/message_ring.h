#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/environment.h"
#include "engines/message.h"
#include "engines/shm/ring_receiver.h"
#include "engines/shm/ring_sender.h"
#include "engines/shm/private_memory.h"
#include "engines/shm/segment.h"

namespace unisono::engines::shm {

/// Carries messages between the ranks of a segment. Each ordered pair has envelopes and a ring of bytes in shared memory. An envelope announces a
/// message, and holds the elements of a small one; those of others are streamed through the ring: the receiver of a large message copies out while
/// the sender copies in; what fits whole is sent at once. The arrived part of a message that no receive has taken is kept aside.
///
/// A message of more than base::eager_bytes may be lent, if that is faster (RingSender::pays_to_lend) and the receiver can read the sender's private
/// memory. Then there is an envelope alone: the sender lends the memory (LentBuffer), and the receiver copies out of it, once, when the receive is
/// posted. The sender has no work with it. The first such message of a pair goes through the ring as others do: with it the receiver tries whether it
/// can.
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

  void note_receives(int peer, bool any) override { sender_.to(peer).both_ways = any; }
  std::unique_ptr<Task> send(int peer, const MessageHeader& header, const void* data) override;
  Tried try_send(int peer, const MessageHeader& header, const void* data) override { return sender_.try_send(peer, header, data); }
  Lending lends(int peer, std::uint64_t bytes) override { return sender_.lends(peer, bytes); }
  bool leaves_to_receiver(int peer, std::uint64_t bytes) override { return sender_.leaves_to_receiver(peer, bytes); }
  std::optional<AnnouncedMessage> next(int peer) override { return receiver_.next(peer); }
  void progress(int peer) override { receiver_.pump(peer); }
  void deliver(int peer, std::uint64_t ticket, const MessageHeader& header, Delivery& delivery) override {
    receiver_.deliver(peer, ticket, header, delivery);
  }
  void advance(int peer, Delivery& delivery) override;
  bool withdraw(int peer, std::uint64_t ticket, Delivery& delivery) noexcept override;

 private:
  MessageRing(std::shared_ptr<Segment> segment, int rank, const std::optional<SingleCopyRange>& range);

  std::shared_ptr<Segment> segment_;
  RingSender sender_;
  RingReceiver receiver_;
};

}  // namespace unisono::engines::shm
