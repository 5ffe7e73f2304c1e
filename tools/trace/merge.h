#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "recorder/trace_reader.h"
#include "trace/job_trace.h"

namespace unisono::tools {

/// True for an operation in which the ranks of a group meet; false for messages, and where the program waits for an asynchronous call.
bool is_collective(const recorder::TraceReader& reader, const recorder::TracedCall& call);
/// True where the program waits for an asynchronous call.
bool is_program_wait(const recorder::TraceReader& reader, const recorder::TracedCall& call);

/// Numbers the calls of a rank that belong to calls of other ranks: the n-th collective of a group, the n-th message to or from a peer. The numbers
/// of the library's own count messages too, so they differ between ranks.
class CallOrder {
 public:
  explicit CallOrder(const recorder::TraceReader& reader);

  /// Returns nothing for a call that is not numbered.
  std::optional<std::uint64_t> number(const recorder::TracedCall& call) const;

 private:
  std::optional<std::uint64_t> key(const recorder::TracedCall& call) const;

  const recorder::TraceReader& reader_;
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> sequences_;  // sorted
};

/// A group, the same on all its ranks.
struct TracedGroup {
  std::string name;
  int size = 0;
  int generation = 0;        ///< of the job, whose ranks its calls name; 0: not known
  std::uint32_t traced = 0;  ///< how many of its ranks have traces
  bool is_largest = false;   ///< of its generation: its collectives are the job's steps
  bool has_lost = false;     ///< calls of its ranks are lost
  bool has_messages = false;

  /// The number of a call is the same on all ranks, unless messages count as well; and without it the calls that are left cannot be told apart.
  bool is_matched() const { return !has_lost || !has_messages; }
};

/// A collective call among those of all groups.
struct MeetingPlace {
  std::size_t group = 0;  ///< index into Merge::groups
  std::uint64_t number = 0;
  auto operator<=>(const MeetingPlace&) const = default;
};

/// A collective call of a group: when its ranks came.
struct Meeting {
  std::uint64_t first = UINT64_MAX, last = 0;
  std::uint64_t root = 0;  ///< when the root came; 0: not known
  int last_rank = -1;      ///< the process's TracedRank::number
  std::uint32_t arrived = 0;
  bool last_blocks = false;  ///< the last rank's call is no asynchronous one
};

/// A call of a rank, in nanoseconds since the trace's beginning, and what it waited for.
struct Slice {
  enum class Row : std::uint8_t {
    program,       ///< the program is in it, in the thread that called `initialize`
    beside,        ///< asynchronous, or of another thread
    program_wait,  ///< the program waits for an asynchronous call
  };
  std::size_t rank = 0;  ///< index into JobTrace::ranks
  Row row = Row::program;
  std::uint64_t begin = 0, end = 0;
  std::uint64_t waited = 0;      ///< from the beginning until the rank that it needed had come
  int waited_for = -1;           ///< that rank, by its TracedRank::number; -1: none, or not known
  bool late_one_blocks = false;  ///< the call of that rank is one of its program's row
  bool is_over = true;
  std::size_t group = 0;  ///< index into Merge::groups
  const recorder::TracedCall* call = nullptr;
};

/// Puts the calls of all ranks together. The calls themselves stay in the files: what is kept is one entry for each collective, and for each message.
class Merge {
 public:
  /// Aligns the clocks where there are several hosts.
  explicit Merge(JobTrace& trace);

  const std::vector<TracedGroup>& groups() const { return groups_; }
  /// Visits the calls of all ranks, rank by rank.
  void each(const std::function<void(const Slice&)>& visit) const;
  void each_of(std::size_t rank, const std::function<void(const Slice&)>& visit) const;
  /// Returns true where calls of some groups are shown as they are in each trace, and belong to none of other ranks.
  bool has_unmatched() const;
  /// Visits the collectives of the largest group of each generation to which all ranks of it have come, in any order.
  void each_step(const std::function<void(const Meeting&)>& visit) const;

 private:
  using Meetings = std::unordered_map<std::uint64_t, Meeting>;
  struct Route {
    std::size_t group;
    int from, to;  // ranks of its generation
    auto operator<=>(const Route&) const = default;
  };
  struct Member {
    std::size_t group;
    int rank;  // in the generation
  };
  /// When an asynchronous call of a rank waited for others.
  using Waits = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

  void number_groups();
  void find_largest();
  std::optional<MeetingPlace> place_of(std::size_t rank, const recorder::TracedCall& call, std::uint64_t number) const;
  void meet(std::size_t rank);
  Slice slice_of(std::size_t rank, const recorder::TracedCall& call, const CallOrder& order) const;
  void find_wait(Slice& slice, std::uint64_t number) const;
  void find_sender(Slice& slice, std::uint64_t number) const;
  Waits waits_beside(std::size_t rank, const CallOrder& order) const;

  JobTrace& trace_;
  std::vector<TracedGroup> groups_;                                 // the first one is none
  std::vector<std::unordered_map<std::uint16_t, Member>> numbers_;  // for each rank, by its own numbers
  std::vector<Meetings> meetings_;                                  // by group
  std::map<Route, std::vector<std::uint64_t>> sends_;               // when each message was sent
};

/// Returns where a collective belongs that has this number in its rank's CallOrder; nothing where it is not to be used.
using FindPlace = std::function<std::optional<MeetingPlace>(const TracedRank&, const recorder::TracedCall&, std::uint64_t number)>;
/// Aligns the clocks of the hosts by calls in which every rank waits for all: none can end before the last one has begun.
void align_clocks(JobTrace& trace, const std::vector<TracedGroup>& groups, const FindPlace& find_place);

}  // namespace unisono::tools
