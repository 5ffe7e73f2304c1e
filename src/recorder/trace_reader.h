#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/layout.h"
#include "recorder/reader.h"

namespace unisono::recorder {

/// A call as a trace has it, with the numbers of its texts. The times are nanoseconds of the steady clock; 0: not known.
struct TracedCall {
  std::uint64_t queued = 0, begun = 0, done = 0;
  std::uint64_t sequence = 0, bytes = 0;
  std::uint16_t group = 0, place = 0;
  std::uint8_t operation = 0, label = 0, dtype = 0;
  CallState state = CallState::none;
  int peer = -1;
  int waited_for = -1;
  bool of_owner = true;  ///< made by the thread that called `initialize`

  bool is_over() const { return state == CallState::done || state == CallState::failed; }
};

/// A group of a rank.
struct GroupSeen {
  std::uint16_t number = 0;
  int size = 0;
  std::string name;
  std::uint32_t name_hash = 0;  ///< of the whole name, which may be longer
  int generation = 0;           ///< of the job, whose ranks its calls name; 0: not known
  int own_rank = -1;            ///< in the world of that generation
};

/// Reads the trace of a rank, in any order, with little memory of its own. The rank may run, or have ended.
class TraceReader {
 public:
  /// Returns null where the file is no trace, or one of another version.
  static std::unique_ptr<TraceReader> open(const std::string& path);

  /// Returns what is known of the rank, without its calls.
  RankSeen about() const { return RecordReader(memory_, RecordReader::Kind::copy).read(0); }
  /// Returns the rank with its last calls: as they are now where it `lives`, which the caller knows, and else as they were when it ended.
  RankSeen last_calls(bool lives) const { return RecordReader(memory_, lives ? RecordReader::Kind::lives : RecordReader::Kind::copy).read(); }
  /// Returns how many calls there is no room for any more: the earliest ones.
  std::uint64_t lost() const;
  /// Visits the calls of the thread that called `initialize`, in their order, and then those of all others.
  void each(const std::function<void(const TracedCall&)>& visit) const;

  std::vector<GroupSeen> groups() const;
  /// Returns false where it is certain that the rank has made no call for a message in groups of that name, not even among those that are lost.
  bool may_have_messages(std::string_view group) const;
  std::string place(std::uint16_t number) const;
  /// Returns the name of the function that the user called.
  std::string operation(const TracedCall& call) const;
  std::string label(std::uint8_t number) const;

 private:
  explicit TraceReader(std::shared_ptr<const void> memory) : memory_(std::move(memory)) {}
  const RecordHeader& header() const { return *static_cast<const RecordHeader*>(memory_.get()); }

  std::shared_ptr<const void> memory_;
};

}  // namespace unisono::recorder
