#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "engines/message.h"
#include "engines/shm/segment.h"

namespace unisono::engines::shm {

/// The messages of the other ranks of a segment to one rank: what has arrived, and where it goes. See MessageRing.
class RingReceiver {
 public:
  /// `reads`: this rank may read the memory of a sender.
  RingReceiver(const Segment& segment, int rank, bool reads)
      : segment_(segment), rank_(rank), reads_(reads), sources_(static_cast<std::size_t>(segment.ranks())) {}

  std::optional<AnnouncedMessage> next(int peer);
  /// Moves the bytes in the ring of one source to their destination.
  void pump(int peer);
  void deliver(int peer, std::uint64_t ticket, const MessageHeader& header, Delivery& delivery);
  void withdraw(int peer, const Delivery& delivery) noexcept;

 private:
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

  Source& from(int peer) { return sources_[static_cast<std::size_t>(peer)]; }
  /// Tells the sender what has been read, if that is enough to be worth it.
  void publish_read(int peer);
  void take_part(Incoming& incoming, const std::byte* memory, std::uint64_t position, std::size_t part);
  void end_message(int peer);
  /// Tries whether this rank can read the memory of the sender, which has asked.
  void try_reach(int peer);

  const Segment& segment_;
  int rank_;
  bool reads_;
  std::vector<Source> sources_;
};

}  // namespace unisono::engines::shm
