#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/eager.h"
#include "base/notifier.h"
#include "base/processors.h"
#include "engines/host_engine.h"
#include "engines/shm/lent_buffer.h"
#include "engines/shm/staging.h"
#include "engines/signature.h"
#include "unisono/call.h"

namespace unisono::engines::shm {

/// Memory that all ranks of a group on this host can reach: the threads of one process, or processes that map the same memfd. It contains no
/// pointers. It is zeroed at first, and all-zero is its initial state, so no rank has to initialise it or wait for that.
///
///   header | per rank: two lines, a place in the table of processes | per rank: 2 inbox slots, 2 result slots
///   | per ordered pair: what its message ring is at, envelopes, memory for copies of messages that were lent,
///     a ring of bytes

inline constexpr std::size_t cache_line = 64;
inline constexpr std::size_t line_payload = 32;  // bytes that travel inside a line

/// Where a rank's buffers of a call lie in its process, and what the rank can reach. See DirectAccess.
struct Announcement {
  std::uint64_t in = 0, out = 0;   // addresses
  std::uint32_t in_pools : 1 = 0;  // both lie in the shared pool of the process
  std::uint32_t maps_all : 1 = 0;  // the rank has mapped the pools of all others
};
static_assert(sizeof(Announcement) <= line_payload);

/// The data by which other ranks map a rank's pool.
struct PoolCard {
  std::uint64_t inode = 0, base = 0, size = 0;
  std::int32_t descriptor = 0;
};

/// Where a word lies in a rank's private memory, and the word: whoever reads it there has found that rank's process.
struct PrivateCard {
  std::uint64_t address = 0, word = 0;
};

/// Where the others find the elements that a rank gives them in a call on blocks of different length.
enum class ElementsIn : std::uint8_t { slot, line, buffer };

/// The data that a rank publishes for one step of the lockstep. Two lines alternate, by the parity of the step.
struct alignas(2 * cache_line) Line {
  std::atomic<std::uint32_t> step{0};
  // A call on blocks of different length sets these: the bytes of each of its counts in `payload` (0: they are in the slot), and where its elements
  // are; in the line they follow the counts.
  std::uint8_t count_bytes = 0;
  ElementsIn elements = ElementsIn::slot;
  std::uint8_t marks = 0;      // what rank 0 tells about slots, and whether `payload` is an Announcement
  std::uint8_t followers = 0;  // the calls behind this one that are in the slot as well: see Batch
  Signature signature{};
  std::byte payload[line_payload]{};
  char label[40]{};  // of the call, where its signature says that it has one

  static constexpr std::uint8_t announcing = 1;  // a mark; the others are a StagingWord
  bool announces() const { return (marks & announcing) != 0; }
  StagingWord staging() const { return static_cast<StagingWord>(marks >> 1); }
  /// Takes an announcement back.
  void set_staging(StagingWord word) { marks = static_cast<std::uint8_t>(static_cast<unsigned>(word) << 1); }
  // Used in the first step of a call whose data does not travel in the line.
  void announce(const Announcement& announcement) {
    marks |= announcing;
    std::memcpy(payload, &announcement, sizeof announcement);
  }
  Announcement announcement() const {
    Announcement announcement;
    std::memcpy(&announcement, payload, sizeof announcement);
    return announcement;
  }
  void set_label(const CollectiveCall& call) {
    const std::string text = label_of(call);
    const std::size_t size = std::min(text.size(), sizeof label - 1);
    std::memcpy(label, text.data(), size);
    label[size] = '\0';
  }
  std::string_view get_label() const { return has_label(signature) ? std::string_view(label, ::strnlen(label, sizeof label)) : std::string_view(); }
};
static_assert(sizeof(Line) == 2 * cache_line && offsetof(Line, payload) + line_payload <= cache_line);

/// The line that announces a message: its number says that the message is there. A message that is small enough is in it, so that it goes from one
/// core to the other with its announcement. A number is stored into a line again only with another value, so nobody has to clear it.
struct alignas(cache_line) Envelope {
  static constexpr std::size_t room = 40;    // bytes of elements
  static constexpr std::size_t count = 512;  // for each ordered pair of ranks; they are used in turn
  std::atomic<std::uint32_t> number{0};      // of the message among those of its pair, from 1 on, modulo 2^32
  std::uint32_t kind = 0;
  std::int32_t tag = 0;
  std::uint32_t marks = 0;
  std::uint64_t bytes = 0;
  std::byte elements[room];
};
static_assert(sizeof(Envelope) == cache_line);

/// A direction of a pair of ranks: what was written and what was read, each on a line of its own, and the memory that the sender lends its receiver.
struct RingControl {
  static constexpr std::size_t most_lent = 64;
  static constexpr std::size_t backed = 1;  // of them that have memory in the segment, the first ones: 64 KiB for each ordered pair of ranks
  // Bytes of the ring. Those of a message that is there whole when it is announced count only with the next one that is not.
  alignas(2 * cache_line) std::atomic<std::uint64_t> written{0};
  PrivateCard card;  // of the sender, where it would lend: written before the message with which the receiver looks for it
  alignas(2 * cache_line) std::atomic<std::uint64_t> read{0};
  std::atomic<std::uint64_t> opened{0};        // envelopes that the receiver has done with
  std::atomic<std::uint32_t> reads_sender{0};  // of the receiver: see Reach
  alignas(2 * cache_line) LentBuffer lent[most_lent];
};
/// Whether a rank can read the private memory of another.
enum class Reach : std::uint32_t { untried = 0, yes = 1, no = 2 };

struct alignas(2 * cache_line) Member : HostMember {
  PoolCard pool;
  std::atomic<std::uint32_t> trial{0}, trial_number{0};  // see DistanceTrial
  std::atomic<StagingWord> trial_found{StagingWord::nothing};
};

/// Returns the bytes of a slot in a segment of so many ranks. The slots of all ranks take at most 16 MiB where that leaves each the smallest size;
/// memory that no step uses is never touched.
constexpr std::size_t slot_bytes_for(int ranks) {
  constexpr std::size_t smallest = std::size_t{128} << 10, largest = std::size_t{1} << 20, slots_per_rank = 4, all_slots = std::size_t{16} << 20;
  return std::clamp(std::bit_floor(all_slots / slots_per_rank / static_cast<std::size_t>(std::max(ranks, 1))), smallest, largest);
}

/// Returns the bytes of each ring in a segment of so many ranks: more than the second-level caches hold, since a line that the receiver has in its
/// cache is slow to write. The rings of all pairs take at most 12 MiB where that leaves each the smallest size.
constexpr std::size_t ring_bytes_for(int ranks) {
  constexpr std::size_t smallest = std::size_t{128} << 10, largest = std::size_t{2} << 20, all_rings = std::size_t{12} << 20;
  const auto n = static_cast<std::size_t>(std::max(ranks, 1));
  return std::clamp(std::bit_floor(all_rings / std::max<std::size_t>(n * (n - 1), 1)), smallest, largest);
}

/// Returns how many bytes of a slot a step of a collective fills, the same on every rank. Ranks with a processor each fill one slot while they empty
/// another, so a step shall be short; ranks that share processors lose a change of tasks with every step, so it shall be long.
constexpr std::size_t step_bytes(std::size_t slot, bool is_crowded) { return is_crowded ? slot : std::min(slot, std::size_t{256} << 10); }

class Segment : public HostMemory {
 public:
  /// A slot is divided among all ranks, and every pair has a ring. With more ranks a slot's parts would be too small, and the rings would take too
  /// much memory.
  static constexpr int most_ranks = most_ranks_of_host;
  static constexpr std::size_t slots_per_rank = 4;  // two inboxes, two results
  struct Shape {
    int ranks = 1;
    std::size_t slot_bytes = slot_bytes_for(ranks);
    std::size_t ring_bytes = ring_bytes_for(ranks);
  };

  /// Returns the bytes of a segment of that shape.
  static std::size_t size_for(const Shape& shape) { return offsets_for(shape).end; }
  /// `memory` is page-aligned and stays mapped as long as `keep_alive`. `notifiers`: those that the members have already, so that a rank of several
  /// groups sleeps in one place; empty: the segment's own are used.
  Segment(const Shape& shape, std::byte* memory, std::shared_ptr<void> keep_alive, std::vector<base::Notifier*> notifiers = {});

  int ranks() const { return shape_.ranks; }  // NOLINT(bugprone-derived-method-shadowing-base-method): the same number, without a look at the list
  std::size_t slot_bytes() const { return shape_.slot_bytes; }
  std::size_t ring_bytes() const { return shape_.ring_bytes; }
  Line& line(int rank, std::uint32_t step) const {
    return reinterpret_cast<Line*>(memory_ + at_.lines)[2 * static_cast<std::size_t>(rank) + (step & 1U)];
  }
  /// Returns true where a rank has published that step.
  bool has_arrived(int rank, std::uint32_t step) const {
    return line(rank, step).step.load(std::memory_order_acquire) == step;  // litmus: step-arrived
  }
  /// Returns true where a test holds for what each rank has announced in that step.
  template <class Test>
  bool all_announce(std::uint32_t step, Test&& test) const {
    for (int r = 0; r < ranks(); ++r) {
      if (!test(line(r, step).announcement())) return false;
    }
    return true;
  }
  Member& member(int rank) const { return reinterpret_cast<Member*>(memory_ + at_.members)[rank]; }
  std::byte* inbox(int rank, std::uint32_t step) const { return slot(rank, step & 1U); }
  std::byte* result(int rank, std::uint32_t step) const { return slot(rank, 2 + (step & 1U)); }
  RingControl& ring(int from, int to) const { return reinterpret_cast<RingControl*>(memory_ + at_.rings)[from * shape_.ranks + to]; }
  Envelope& envelope(int from, int to, std::uint64_t index) const {
    return reinterpret_cast<Envelope*>(memory_ +
                                       at_.envelopes)[static_cast<std::size_t>(from * shape_.ranks + to) * Envelope::count + index % Envelope::count];
  }
  /// Returns the memory of a lent message, of at most base::eager_bytes. `place` is below RingControl::backed.
  std::byte* lent_data(int from, int to, std::size_t place) const {
    return memory_ + at_.lent_data + (static_cast<std::size_t>(from * shape_.ranks + to) * RingControl::backed + place) * base::eager_bytes;
  }
  std::byte* ring_data(int from, int to) const {
    return memory_ + at_.ring_data + static_cast<std::size_t>(from * shape_.ranks + to) * shape_.ring_bytes;
  }

 private:
  struct Offsets {
    std::size_t lines, members, slots, rings, envelopes, lent_data, ring_data, end;
  };
  static Offsets offsets_for(const Shape& shape);
  static std::vector<HostMember*> members_in(std::byte* memory, const Shape& shape);

  std::byte* slot(int rank, std::size_t index) const {
    return memory_ + at_.slots + (slots_per_rank * static_cast<std::size_t>(rank) + index) * shape_.slot_bytes;
  }

  Shape shape_;
  Offsets at_;
  std::byte* memory_;
  std::shared_ptr<void> keep_alive_;
};

/// Returns zeroed memory for ranks that are threads of this process.
std::shared_ptr<std::byte> private_memory(std::size_t bytes);

}  // namespace unisono::engines::shm
