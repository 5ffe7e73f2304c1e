#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
/// Adds what the system says now of the rank's process, on this host. The rank has its number of the last generation.
RankFacts facts_of(recorder::RankSeen record);
/// Those that go on without a lost rank, and with another process in its place, have other ranks than before.
void number_by_last_generation(recorder::RankSeen& record);

/// Sorts the ranks of a job. Where lost ranks are replaced, those that go on have other numbers in each generation: a process that has not joined
/// yet, or has ended before, is left out where another one has its number by now.
void keep_last_generation(std::vector<RankFacts>& ranks);

using recorder::call_text;
using recorder::duration_text;
using recorder::placed_text;

std::string_view state_name(recorder::CallState state);

/// Returns the call that tells what a rank does: one in which its program waits, or else its last one, before asynchronous ones that wait for others
/// while the program computes. Null before the first.
const recorder::CallSeen* call_shown(const RankFacts& rank);
/// Returns for how many nanoseconds the program has waited in the call that is shown; 0: it does not.
std::uint64_t wait_under_way(const RankFacts& rank);
/// All that state_text returns.
inline constexpr std::string_view rank_states[] = {"joining", "program", "queued", "running", "waiting", "stopped", "failed", "left", "ended"};
std::string_view state_text(const RankFacts& rank);
/// Returns the share of its time that a rank has waited.
double waiting_share(const RankFacts& rank);

/// Returns what the main thread of a process waits for in the system: "reads the named pipe /tmp/part2", "waits for a mutex that it has locked
/// itself". The process is neither stopped nor asked. Empty where the thread does not wait, or where the system does not tell.
std::string system_wait_of(int pid);

}  // namespace unisono::launcher
