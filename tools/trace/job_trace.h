#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
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

struct TracedRank {
  std::unique_ptr<recorder::TraceReader> reader;
  recorder::RankSeen about;
  std::size_t host = 0;            ///< of JobTrace::clocks
  std::uint64_t from = 0, to = 0;  ///< nanoseconds since the trace's beginning
};

/// The traces of a job's ranks, of the last attempt of each.
struct JobTrace {
  std::string name, program;
  int size = 0;                   ///< of the job; ranks whose traces are elsewhere are missing in `ranks`
  std::vector<TracedRank> ranks;  ///< by rank
  std::vector<HostClock> clocks;
  std::uint64_t origin = 0;       ///< the beginning, on the clock of the first host
  std::uint64_t real_origin = 0;  ///< the beginning, in nanoseconds since 1970
  std::uint64_t span = 0;         ///< from the beginning to the last end of a rank
  std::uint64_t lost = 0;         ///< calls that the files have no room for

  /// Returns a moment of a rank's steady clock in nanoseconds since the beginning.
  std::uint64_t time_of(const TracedRank& rank, std::uint64_t steady) const;
  const TracedRank* find(int rank) const;
};

/// Reads the traces in a folder, those of one job. Throws InvalidArgument where there is none, or where there are several jobs and none is named.
JobTrace open_traces(const std::string& folder, const std::string& job);
/// Sets the beginning and the ranks' spans by the clocks as they are.
void set_origin(JobTrace& trace);

}  // namespace unisono::tools
