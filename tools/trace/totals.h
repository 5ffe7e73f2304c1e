#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launch/view/standstill.h"
#include "trace/merge.h"

namespace unisono::tools {

/// How a rank has spent its time, in nanoseconds.
struct RankTotals {
  std::uint64_t calls = 0, bytes = 0;
  std::uint64_t span = 0;      ///< from its first moment to its last one
  std::uint64_t in_calls = 0;  ///< in which the thread that called `initialize` was in any; the rest of the span it has computed
  std::uint64_t waiting = 0;   ///< of that, in which it waited until the others had come; the rest the data moved
  std::uint64_t caused = 0;    ///< that other ranks have waited for it, in sum
  std::uint64_t last = 0;      ///< collectives of the largest group to which it came last

  std::uint64_t computing() const { return span - std::min(span, in_calls); }
  std::uint64_t moving() const { return in_calls - std::min(in_calls, waiting); }
};

struct OperationTotals {
  std::uint64_t calls = 0, bytes = 0, time = 0, waiting = 0;
};

struct Totals {
  std::vector<RankTotals> ranks;                      ///< by their index
  std::map<std::string, OperationTotals> operations;  ///< by the function that was called
  std::uint64_t calls = 0;
  std::uint64_t steps = 0;   ///< collectives of the largest group of each generation
  bool are_partial = false;  ///< not all that the ranks have waited for each other is known

  /// The ranks for which the others have waited, by their indices; none where all have waited alike, but for noise.
  std::vector<std::size_t> slowest() const;
};

Totals totals_of(const JobTrace& trace, const Merge& merge);

/// Returns what is to be known of a trace, for people.
std::string trace_text(const JobTrace& trace, const Totals& totals);
/// Returns who is waited for in a job that stands still, or stood still when it ended; empty: it did not.
std::vector<launcher::Delay> standstill_of(const JobTrace& trace);
/// Returns in sentences what keeps the job back: who is waited for where it stands still, or else who was waited for most.
std::vector<std::string> verdict_of(const JobTrace& trace, const Totals& totals);
/// Returns a sentence on each host's clock but the first one's.
std::vector<std::string> clock_texts(const JobTrace& trace);
/// Returns a sentence on the calls that there was no room for; empty: there are none.
std::string lost_text(const JobTrace& trace, const Totals& totals);
/// Returns a sentence on the processes that came to the job while it ran; empty: there are none.
std::string latecomers_text(const JobTrace& trace);

}  // namespace unisono::tools
