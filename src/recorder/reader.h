#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "recorder/layout.h"
#include "unisono/operation.h"
#include "unisono/tensor.h"

namespace unisono::recorder {

/// A call as a record has it.
struct CallSeen {
  std::string operation;  ///< the function that the user called
  Operation kind = Operation::barrier;
  std::string group;   ///< "world (2)" is the second group of that name
  int generation = 0;  ///< of the job, whose ranks it names; 0: not known
  std::string place;   ///< "train.cpp:57"; empty: not known
  int count = -1;      ///< where it is counted, among RankSeen::counts; -1: not known
  CallState state = CallState::none;
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
  DType dtype = DType::uint8;
  int peer = -1;  ///< root, source or destination
  int tag = 0;    ///< of a message
  /// In nanoseconds of the steady clock; 0: not known. A small call that did not wait has no beginning.
  std::uint64_t queued = 0, begun = 0, done = 0;
  int waited_for = -1;  ///< the first of the ranks that it waited for when it was last looked at
  std::uint32_t waited_count = 0;

  bool is_over() const { return state == CallState::done || state == CallState::failed; }
};

/// What calls sum up to.
struct CallTotals {
  std::uint64_t calls = 0, bytes = 0;
  std::uint64_t waited = 0;  ///< nanoseconds in which the program waited for longer than a spin, in calls that are over

  void add(const CallTotals& others) {
    calls += others.calls;
    bytes += others.bytes;
    waited += others.waited;
  }
};

/// The counts of a rank of the calls of one operation in all groups of one name, since it joined.
struct CountSeen : CallTotals {
  std::string group = {};      ///< empty: of groups that were not counted alone
  std::string operation = {};  ///< empty: of operations that were not counted alone
  std::uint64_t failures = 0;
};

/// A rank as its record has it, and all its calls.
struct RankSeen : CallTotals {
  int pid = 0;
  std::int64_t life = 0;    ///< see base::own_life
  int rank = -1, size = 0;  ///< where it has joined the job
  /// The same in the last generation, in a job that replaces lost ranks; its calls use these numbers. Generation 0: it is in no such job.
  struct Last {
    int generation = 0, rank = -1, size = 0;
  } last;
  int node = -1;
  RankState state = RankState::joining;
  std::string host, job, program, failure;
  std::uint64_t failures = 0;             ///< that ended a group
  std::uint64_t program_waits_since = 0;  ///< of the steady clock: for an asynchronous call; 0: it does not
  std::uint64_t began = 0;                ///< nanoseconds of the steady clock
  std::uint64_t real_at_began = 0;        ///< nanoseconds since 1970
  std::uint64_t now = 0;                  ///< of the steady clock, when the record was read, or the copy of it was written
  bool is_copy = false;                   ///< from a file that was written earlier
  std::vector<CountSeen> counts;          ///< in no order
  std::vector<CallSeen> recent;           ///< in the order in which they were made; of calls that were made in several threads, by their times
};

/// Reads the record of a rank, which may be another process, and may have ended.
class RecordReader {
 public:
  enum class Kind { lives, copy };
  /// Maps a record. Returns null where the file is none, or one of another version.
  static std::unique_ptr<RecordReader> open(const base::FileDescriptor& file);
  /// Reads what `dump` has written. Returns null where the file is no record, or one of another version.
  static std::unique_ptr<RecordReader> open_copy(const std::string& path);
  /// Reads a record of this process.
  explicit RecordReader(std::shared_ptr<const void> memory, Kind kind = Kind::lives) : memory_(std::move(memory)), kind_(kind) {}

  /// Returns at most `most` of the last calls.
  RankSeen read(std::size_t most = SIZE_MAX) const;
  pid_t process() const { return header().pid.load(std::memory_order_relaxed); }

 private:
  const RecordHeader& header() const { return *static_cast<const RecordHeader*>(memory_.get()); }
  std::optional<CallSeen> call_at(const CallEntry& entry) const;
  std::uint64_t steady_of(std::uint64_t ticks) const;
  struct Counts {
    std::vector<CountSeen> seen;
    std::array<int, CountTable::most_counts + 1> places;  ///< among these, by the numbers of the record's entries; -1: nothing was counted
  };
  Counts counts() const;

  std::shared_ptr<const void> memory_;
  Kind kind_;
};

/// Maps a record. Returns null where the file is none, or one of another version.
std::shared_ptr<const void> map_record(const base::FileDescriptor& file);

/// A copy of a record, to be changed.
struct RecordCopy {
  std::shared_ptr<void> memory;
  std::size_t bytes = 0;
};
/// Returns nothing where the file is no record, or one of another version.
std::optional<RecordCopy> copy_of(const base::FileDescriptor& file);

/// Returns the record of a process of this host, or null where it has none that this process may read.
std::unique_ptr<RecordReader> find_record(pid_t process);

/// Returns the records of the processes of this user that this process can see, each once. What a launcher keeps of a rank that has ended is among
/// them.
std::vector<std::unique_ptr<RecordReader>> find_records();

}  // namespace unisono::recorder
