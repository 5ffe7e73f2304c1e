#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "recorder/trace_reader.h"

namespace unisono::tools {

// A file may hold any times: sums of them wrap around, as those of unsigned numbers do, and what is no number of nanoseconds becomes the nearest one.

inline std::int64_t wrapped(std::uint64_t sum) { return static_cast<std::int64_t>(sum); }
std::int64_t whole_ns(double ns);

/// The clock of a host, against that of the host of the first rank.
struct HostClock {
  /// What is to be added to the host's steady clock at one moment of it. Between two moments it changes evenly.
  struct Knot {
    std::uint64_t at = 0;
    std::int64_t shift = 0;
  };
  std::string host;
  std::vector<Knot> knots;           ///< by time; at least one
  std::uint64_t uncertainty_ns = 0;  ///< only where `is_measured`
  bool is_measured = false;          ///< by calls in which all ranks wait for all; else by the hosts' clocks of the day

  std::int64_t shift_at(std::uint64_t steady) const;
};

/// A process of the job. A job that goes on without lost ranks may have several for one rank, one after the other, and gives its ranks other numbers
/// whenever it takes new ones in: each such world is a generation. The numbers here stay.
struct TracedRank {
  std::unique_ptr<recorder::TraceReader> reader;
  recorder::RankSeen about;                 ///< its rank is that of the generation that it has joined
  int place = -1;                           ///< the rank by which the launcher knows it, and those that came in its place
  int restarts = 0;                         ///< 0: of the start; the first process that came to its place later has 1
  int number = -1;                          ///< of this process alone: its place; of those that came later one that is no place
  std::string name;                         ///< "1"; "1.2" is the second process that came in the place of rank 1
  std::vector<recorder::GroupSeen> groups;  ///< by number
  std::size_t host = 0;                     ///< of JobTrace::clocks
  std::uint64_t from = 0, to = 0;           ///< nanoseconds since the trace's beginning

  /// Returns the generation whose ranks the calls of a group name; 0: not known.
  int generation_of(std::uint16_t group) const;
  /// Returns its rank in a generation; -1: it is no member.
  int rank_in(int generation) const;
};

/// The traces of a job's ranks, of its last attempt.
struct JobTrace {
  std::string name, program;
  int size = 0;                   ///< of the job; ranks whose traces are elsewhere are missing in `ranks`
  std::vector<TracedRank> ranks;  ///< by place, and one place's by restarts
  std::vector<HostClock> clocks;
  std::uint64_t origin = 0;       ///< the beginning, on the clock of the first host
  std::uint64_t real_origin = 0;  ///< the beginning, in nanoseconds since 1970
  std::uint64_t span = 0;         ///< from the beginning to the last end of a rank
  std::uint64_t lost = 0;         ///< calls that the files have no room for

  /// Returns a moment of a rank's steady clock in nanoseconds since the beginning.
  std::uint64_t time_of(const TracedRank& rank, std::uint64_t steady) const;
  /// Returns the process with that number; null: its trace is missing.
  const TracedRank* find(int number) const;
  /// Returns the last process of a place; null: it has none.
  const TracedRank* last_of(int place) const;
  /// Returns the number of the process that is, or was, a rank in a generation; -1: not known.
  int number_of(int generation, int rank) const;
  /// Returns the name of the process with that number.
  std::string name_of(int number) const;
  /// Returns for how many of the job's ranks there are traces.
  int places() const;

  std::unordered_map<int, std::size_t> indices;  ///< of `ranks`, by number
  std::map<std::pair<int, int>, int> numbers;    ///< by generation and rank, from the second generation on
};

/// Returns the ranks whose traces lie in a folder, of the last attempt of one job, with their readers, places and restarts.
std::vector<TracedRank> read_ranks(const std::string& folder, const std::string& job);

/// Reads the traces in a folder, those of one job. Throws InvalidArgument where there is none, or where there are several jobs and none is named.
JobTrace open_traces(const std::string& folder, const std::string& job);
/// Sets the beginning and the ranks' spans by the clocks as they are.
void set_origin(JobTrace& trace);

}  // namespace unisono::tools
