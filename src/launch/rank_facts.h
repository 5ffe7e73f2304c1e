#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "recorder/call_text.h"
#include "recorder/reader.h"

// The state of a rank, by its record and by what the system says of its process.

namespace unisono::launcher {

/// The facts that the system tells of a rank's process.
struct ProcessFacts {
  bool lives = false;
  bool is_stopped = false;
  double cpu_seconds = 0;          ///< of all its threads
  double cpu_share = 0;            ///< of one processor: since the rank joined, or since the last look at it
  std::uint64_t memory_bytes = 0;  ///< resident
};
/// `life`: see base::own_life; 0: not known.
ProcessFacts process_facts(int pid, std::int64_t life);

struct RankFacts {
  recorder::RankSeen record = {};
  ProcessFacts process = {};
  bool has_joined = true;  ///< false: its process runs, and has called nothing of the library yet
  bool is_here = true;     ///< false: it is on another host, which has told this
  bool is_trace = false;   ///< from a trace, which outlives its rank's calls
};
/// Adds what the system says now of the rank's process, on this host.
RankFacts facts_of(recorder::RankSeen record);

using recorder::call_text;
using recorder::duration_text;
using recorder::placed_text;

std::string_view state_name(recorder::CallState state);

/// Returns the call that tells what a rank does: one in which it waits, or else its last one. Null before the first.
const recorder::CallSeen* call_shown(const RankFacts& rank);
/// All that state_text returns.
inline constexpr std::string_view rank_states[] = {"joining", "program", "queued", "running", "waiting", "stopped", "failed", "left", "ended"};
std::string_view state_text(const RankFacts& rank);
/// Returns the share of its time that a rank has waited.
double waiting_share(const RankFacts& rank);

}  // namespace unisono::launcher
