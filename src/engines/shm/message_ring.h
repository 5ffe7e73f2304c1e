#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/environment.h"
#include "engines/message.h"
#include "engines/shm/segment.h"

namespace unisono::engines::shm {

/// Carries messages between the ranks of a segment. Each ordered pair has a ring of bytes in shared memory. A message is a header and its elements,
/// streamed through the ring: the receiver of a large message copies out while the sender copies in; a small one fits whole, and its send is done at
/// once. The arrived part of a message that no receive has taken is kept aside.
///
/// A message that does not fit whole has to wait for its receiver anyway. Where the receiver can read the sender's private memory, the ring carries
/// its header alone: the sender lends the memory (LentBuffer), and the receiver copies out of it, once, when the receive is posted. The sender has no
/// work with it. The first such message of a pair goes through the ring as others do: with it the receiver tries whether it can.
///
/// Both sides of a ring keep what they have seen of the other's counter and look again only where that does not suffice, and the receiver says what
/// it has read once for many small messages: a counter's line goes from one core to the other as seldom as it can.
class MessageRing final : public MessageCarrier {
 public:
  /// `environment`: for UNISONO_SINGLE_COPY.
  MessageRing(std::shared_ptr<Segment> segment, int rank, const base::Environment& environment = base::Environment::process());

  std::unique_ptr<Task> send(int peer, const MessageHeader& header, const void* data) override;
  Tried try_send(int peer, const MessageHeader& header, const void* data) override;
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
    Delivery* delivery = nullptr;  // null and not aside: the elements are discarded
    std::vector<std::byte> aside;
  };
  struct Source {
    std::uint64_t read = 0;       // bytes of the ring
    std::uint64_t published = 0;  // of them the sender knows
    std::uint64_t written = 0;    // bytes, as this rank has seen last
    Incoming incoming;
    std::uint64_t tickets = 0;
    std::map<std::uint64_t, std::vector<std::byte>> aside;  // whole messages that no receive has taken, by ticket
    std::map<std::uint64_t, std::size_t> lent;              // the places of those that lie at the sender, by ticket
  };

  struct Destination {
    std::uint64_t read = 0;       // bytes of the ring, as this rank has seen last
    std::deque<SendTask*> queue;  // in order; the first one writes
    std::uint64_t lent = 0;       // a bit for each place at which something is lent
  };

  /// Returns the free bytes of the ring to a peer; what is known of them, where that is at least `wanted`.
  std::uint64_t space_to(int peer, std::uint64_t written, std::uint64_t wanted);
  /// Returns true where the ring of a source has so many bytes to read.
  bool has_bytes(int peer, std::uint64_t wanted);
  /// Tells the sender what has been read, if that is enough to be worth it.
  void publish_read(int peer);
  void publish_written(int peer, std::uint64_t written) noexcept;
  /// Moves the bytes in the ring of one source to their destination.
  void pump(int source);
  void take_part(Incoming& incoming, const std::byte* memory, std::uint64_t position, std::size_t part);
  void end_message(Source& source);
  bool may_lend(std::uint64_t bytes) const;
  Reach reach_of(int peer) const { return static_cast<Reach>(segment_->ring(rank_, peer).reads_sender.load(std::memory_order_acquire)); }
  /// Prepares for asking the receiver, with the next message, to try whether it can read this rank's memory. Returns false where it has tried.
  bool ask(int peer);
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
