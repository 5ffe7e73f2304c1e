#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/call_order.h"
#include "trace/job_trace.h"

namespace unisono::tools {

/// A group, the same on all its ranks.
struct TracedGroup {
  std::string name;
  int size = 0;
};

/// A collective call of a group: when its ranks came.
struct Meeting {
  std::uint64_t first = UINT64_MAX, last = 0;
  std::uint64_t root = 0;  ///< when the root came; 0: not known
  int last_rank = -1;
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
  int waited_for = -1;           ///< that rank; -1: none, or not known
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
  /// Visits the collectives of the largest group to which all ranks of it have come, in any order.
  void each_step(const std::function<void(const Meeting&)>& visit) const;

 private:
  using Meetings = std::unordered_map<std::uint64_t, Meeting>;
  struct Route {
    std::size_t group;
    int from, to;
    auto operator<=>(const Route&) const = default;
  };
  /// When an asynchronous call of a rank waited for others.
  using Waits = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

  void number_groups();
  void meet(std::size_t rank);
  Slice slice_of(std::size_t rank, const recorder::TracedCall& call, const CallOrder& order) const;
  void find_wait(Slice& slice, std::uint64_t number) const;
  void find_sender(Slice& slice, std::uint64_t number) const;
  Waits waits_beside(std::size_t rank, const CallOrder& order) const;
  std::uint64_t meeting_number(const recorder::TracedCall& call, std::uint64_t number) const;

  JobTrace& trace_;
  std::vector<TracedGroup> groups_;                                      // the first one is none
  std::vector<std::unordered_map<std::uint16_t, std::size_t>> numbers_;  // for each rank, by its own numbers
  std::vector<Meetings> meetings_;                                       // by group
  std::map<Route, std::vector<std::uint64_t>> sends_;                    // when each message was sent
};

/// Aligns the clocks of the hosts by calls in which every rank waits for all: none can end before the last one has begun.
void align_clocks(JobTrace& trace, const std::function<bool(const TracedRank&, const recorder::TracedCall&)>& is_of_largest_group);

}  // namespace unisono::tools
