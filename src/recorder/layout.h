#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/printable.h"
#include "recorder/ticks.h"
#include "unisono/operation.h"

// The memory of a rank's record. Other processes read it while it is written, and after its rank has ended, so it holds no pointers, and every word
// that changes is an atomic. All-zero is its initial state.

namespace unisono::recorder {

inline constexpr std::uint64_t record_magic = 0x33'63'65'72'69'6e'75'00;  // "unirec3"
inline constexpr std::string_view record_name = "unisono-record";         // of the memory file

/// A text that is written once, or rarely, by its rank. A longer one loses its beginning where the end says more, and its end otherwise.
template <std::size_t Size>
class FixedText {
 public:
  enum class Keep { begin, end };
  void set(std::string_view text, Keep keep = Keep::begin) noexcept {
    if (text.size() > Size) text = keep == Keep::begin ? text.substr(0, Size) : text.substr(text.size() - Size);
    length_.store(0, std::memory_order_relaxed);
    for (std::size_t i = 0; i < text.size(); ++i) chars_[i].store(text[i], std::memory_order_relaxed);
    length_.store(static_cast<std::uint32_t>(text.size()), std::memory_order_release);
  }
  /// Returns it as a text for people: the record may be somebody else's.
  std::string get() const {
    std::string text(std::min<std::size_t>(length_.load(std::memory_order_acquire), Size), '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = chars_[i].load(std::memory_order_relaxed);
    return base::printable(text);
  }

 private:
  std::atomic<std::uint32_t> length_{0};
  std::array<std::atomic<char>, Size> chars_{};
};

enum class CallState : std::uint8_t {
  none = 0,
  queued,   ///< behind other asynchronous calls, or handed to the progress thread
  running,  ///< begun
  waiting,  ///< has waited for longer than a spin
  done,
  failed,
};

/// A call. `turn` is even while the entry belongs to the call whose number it tells, and odd while it is given to the next one.
struct alignas(64) CallEntry {
  std::atomic<std::uint32_t> turn{0};
  std::atomic<std::uint16_t> group{0};
  std::atomic<std::uint8_t> place{0};
  std::atomic<std::uint8_t> count{0};  // 1 + the number of the entry in which it is counted; 0: not known
  std::atomic<std::uint8_t> operation{0}, label{0}, dtype{0}, state{0};
  std::atomic<std::int32_t> peer{-1};  // root, source or destination; -1: none
  std::atomic<std::uint64_t> sequence{0}, bytes{0};
  std::atomic<std::uint64_t> queued{0}, begun{0}, done{0};  // ticks; begun is 0 for a small call that did not wait
  std::atomic<std::int32_t> waited_for{-1};                 // the first of the ranks that it waited for last, in the world
  std::atomic<std::uint32_t> count_or_tag{0};               // how many they were; of a message its tag
};
static_assert(sizeof(CallEntry) == 64);

/// How many calls a record holds, and has room for.
struct RingSizes {
  std::atomic<std::uint32_t> calls{0};   // entries of the owner's ring; that of a trace grows
  std::atomic<std::uint32_t> others{0};  // entries of the ring of other threads
  std::uint32_t most_calls = 0;          // entries that lie before those of other threads
  std::uint32_t most_others = 0;
  std::uint32_t more_groups = 0;  // of a trace: texts of groups behind the header, by number

  bool are_sound() const noexcept {
    const std::uint32_t own = calls.load(std::memory_order_relaxed), of_others = others.load(std::memory_order_relaxed);
    return own > 0 && of_others > 0 && own <= most_calls && of_others <= most_others;
  }
};

/// The number of a rank in its job, and of its process on its host.
struct PlaceInJob {
  std::atomic<std::int32_t> rank{-1}, size{0}, local_rank{-1}, node{-1};

  void set(int its_rank, int its_size, int its_local_rank, int its_node) noexcept {
    rank.store(its_rank, std::memory_order_relaxed);
    size.store(its_size, std::memory_order_relaxed);
    local_rank.store(its_local_rank, std::memory_order_relaxed);
    node.store(its_node, std::memory_order_relaxed);
  }
};

/// One moment on both clocks.
struct ClockPair {
  std::atomic<std::uint64_t> ticks{0}, steady{0};
};

/// What the clocks showed at the beginning of a record, and show later.
struct Clocks {
  ClockPair first, last;
  std::atomic<std::uint64_t> real_at_first{0};  // ns since 1970

  /// Notes that the clocks show this now. `uses_counter`: of the processor. A handler of a signal may call it.
  void note(bool uses_counter) noexcept {
    last.ticks.store(uses_counter ? counter() : steady_ns(), std::memory_order_relaxed);
    last.steady.store(steady_ns(), std::memory_order_relaxed);
  }
};

/// The texts that calls name by a number. The first of each kind stands for none.
struct RecordTexts {
  static constexpr std::size_t most_labels = 128, most_places = 256;
  std::array<FixedText<44>, most_labels> labels;
  std::array<FixedText<60>, most_places> places;

  std::string label(std::size_t number) const { return number == 0 || number >= most_labels ? "" : labels[number].get(); }
  /// Returns the label of a call, or the name of its operation where it has none.
  std::string operation(std::uint8_t label_number, std::uint8_t operation) const {
    std::string text = label(label_number);
    return text.empty() ? std::string(to_string(static_cast<Operation>(operation))) : text;
  }
  std::string place(std::size_t number) const { return number == 0 || number >= most_places ? "" : places[number].get(); }
};

enum class RankState : std::uint32_t {
  joining = 0,
  running,
  failed,
  left,
  ended,  ///< without a word; said by whoever kept its record
};

/// The calls of the recorder's owner, which alone writes it.
struct OwnCount {
  std::atomic<std::uint64_t> calls{0}, bytes{0};
};

/// The calls of other threads; and the waits and the failures of all calls, which may end in any thread.
struct SharedCount {
  std::atomic<std::uint64_t> calls{0}, bytes{0}, waited_ticks{0}, failures{0};
};

/// What the calls of one operation in all groups of one name are counted by.
struct CountKey {
  std::uint8_t group = 0;  ///< the number of the group's name; 0: of all further groups
  std::uint8_t operation = 0, label = 0;

  constexpr std::uint32_t pack() const noexcept {
    constexpr std::uint32_t is_used = 1U << 24;
    return is_used | std::uint32_t{group} << 16 | std::uint32_t{operation} << 8 | label;
  }
  static constexpr CountKey unpack(std::uint32_t word) noexcept {
    return {static_cast<std::uint8_t>(word >> 16), static_cast<std::uint8_t>(word >> 8), static_cast<std::uint8_t>(word)};
  }
};

/// Which calls have an entry of the counts: a table with open addressing. Calls for which it has no room are counted in the last entry, and calls of
/// groups with further names in the first name.
struct CountTable {
  static constexpr std::size_t most_counts = 128, most_groups = 32;
  std::array<FixedText<60>, most_groups> groups;               // the first is that of all further groups
  std::array<std::atomic<std::uint32_t>, most_counts> keys{};  // packed; 0: free

  CountKey key(std::size_t entry) const noexcept { return CountKey::unpack(keys[entry].load(std::memory_order_acquire)); }
};

/// The counts, by the entries of the table and one for the rest.
struct alignas(64) Counts {
  std::array<OwnCount, CountTable::most_counts + 1> own;
  alignas(64) std::array<SharedCount, CountTable::most_counts + 1> shared;

  std::uint64_t calls(std::size_t entry) const noexcept {
    return own[entry].calls.load(std::memory_order_relaxed) + shared[entry].calls.load(std::memory_order_relaxed);
  }
  std::uint64_t bytes(std::size_t entry) const noexcept {
    return own[entry].bytes.load(std::memory_order_relaxed) + shared[entry].bytes.load(std::memory_order_relaxed);
  }
};

struct RecordHeader {
  std::atomic<std::uint64_t> magic{0};  // written last
  RingSizes rings;
  std::atomic<std::int32_t> pid{0};
  std::atomic<std::int64_t> life{0};  // see base::own_life
  PlaceInJob in_job;
  std::atomic<std::uint32_t> state{0};
  std::atomic<std::uint32_t> uses_counter{0};  // of the processor
  Clocks clocks;
  FixedText<60> host, job;
  FixedText<124> program;
  FixedText<508> failure;

  alignas(64) std::atomic<std::uint64_t> next{0};     // calls of the owner's ring so far
  std::atomic<std::uint64_t> program_waits_since{0};  // ticks: for an asynchronous call; 0: it does not
  alignas(64) std::atomic<std::uint64_t> next_of_others{0};
  std::atomic<std::uint64_t> failures{0};  // that ended a group

  /// Notes that the clocks show this now. A handler of a signal may call it.
  void note_clock() noexcept { clocks.note(uses_counter.load(std::memory_order_relaxed) != 0); }

  static constexpr std::size_t most_groups = 64;
  struct GroupText {
    std::atomic<std::uint16_t> number{0};      // groups are numbered from 1; a group's text lies at its number modulo most_groups
    std::atomic<std::uint16_t> generation{0};  // of the job, whose ranks its calls name; 0: not known
    std::atomic<std::uint32_t> size{0};
    std::atomic<std::uint32_t> name_hash{0};  // of the whole name
    static constexpr std::size_t longest_name = 44;
    FixedText<longest_name> name;
    std::atomic<std::int32_t> own_rank{0};  // in the world of that generation

    void set(std::uint16_t its_number, int its_size, std::string_view its_name, int its_generation = 0, int rank = -1) noexcept {
      number.store(0, std::memory_order_relaxed);
      generation.store(its_generation > UINT16_MAX ? 0 : static_cast<std::uint16_t>(its_generation), std::memory_order_relaxed);
      own_rank.store(rank, std::memory_order_relaxed);
      size.store(static_cast<std::uint32_t>(its_size), std::memory_order_relaxed);
      std::uint32_t hash = 2166136261U;  // FNV-1a
      for (const char c : its_name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
      name_hash.store(hash, std::memory_order_relaxed);
      name.set(its_name);
      number.store(its_number, std::memory_order_release);
    }
  };
  std::array<GroupText, most_groups> groups;
  RecordTexts texts;
  CountTable counted;
  Counts counts;
};
// Records of one version have one layout.
static_assert(sizeof(RingSizes) == 20 && sizeof(PlaceInJob) == 16 && sizeof(Clocks) == 40 && sizeof(RecordTexts) == 22528 &&
              sizeof(CountTable) == 2560 && sizeof(Counts) == 6272 && sizeof(RecordHeader) == 36480);
static_assert(RecordTexts::most_places <= 256 && CountTable::most_counts + 1 < 256, "a call has a byte for each number");

/// Returns the bytes of a record.
constexpr std::size_t record_bytes(std::uint32_t calls, std::uint32_t others, std::uint32_t more_groups = 0) {
  return (sizeof(RecordHeader) + 63) / 64 * 64 + std::size_t{more_groups} * sizeof(RecordHeader::GroupText) +
         (std::size_t{calls} + others) * sizeof(CallEntry);
}
static_assert(sizeof(RecordHeader::GroupText) == 64);
inline RecordHeader::GroupText* more_groups_of(RecordHeader* header) {
  return reinterpret_cast<RecordHeader::GroupText*>(reinterpret_cast<std::byte*>(header) + record_bytes(0, 0));
}
/// Returns the owner's entries; those of other threads lie behind them.
inline CallEntry* entries_of(RecordHeader* header) {
  return reinterpret_cast<CallEntry*>(reinterpret_cast<std::byte*>(header) + record_bytes(0, 0, header->rings.more_groups));
}
inline const CallEntry* entries_of(const RecordHeader* header) { return entries_of(const_cast<RecordHeader*>(header)); }
inline const CallEntry* entries_of_others(const RecordHeader* header) { return entries_of(header) + header->rings.most_calls; }

/// The variable that names a rank's descriptor of the record that its launcher keeps for it.
inline constexpr const char* record_variable = "UNISONO_RECORD_FD";

}  // namespace unisono::recorder
