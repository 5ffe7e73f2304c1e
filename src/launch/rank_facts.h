#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/reader.h"

// What a rank does, by its record and by what the system says of its process.

namespace unisono::launcher {

/// What the system says of a rank's process.
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
};
/// Adds what the system says now of the rank's process, on this host.
RankFacts facts_of(recorder::RankSeen record);

/// "12.1 s", "3 min 5 s"
std::string duration_text(std::uint64_t ns);
/// "all_reduce #841 of world"
std::string call_text(const recorder::CallSeen& call);
std::string_view state_name(recorder::CallState state);

/// Returns the call that tells what a rank does: one in which it waits, or else its last one. Null before the first.
const recorder::CallSeen* call_shown(const RankFacts& rank);
/// All that state_text returns.
inline constexpr std::string_view rank_states[] = {"joining", "program", "queued", "running", "waiting", "stopped", "failed", "left", "ended"};
std::string_view state_text(const RankFacts& rank);
/// Returns the share of its time that a rank has waited.
double waiting_share(const RankFacts& rank);

/// What stands between a job and its next step.
struct Delay {
  std::string text;  ///< "rank 3 has not come to all_reduce #841 of world for 12.1 s: it is in the program, since all_reduce #840 (train.cpp:57)"
  std::string call;  ///< "all_reduce #841 of world"
  int late = -1;     ///< the rank that is waited for
  std::uint64_t for_ns = 0;  ///< how long the others have waited
};
/// Finds the ranks of a job that others wait for, the longest wait first. Waits below `at_least` are none.
std::vector<Delay> delays_of(std::span<const RankFacts> ranks, std::uint64_t at_least);
/// Shorter waits are the normal course of a program, and are not told.
inline constexpr std::uint64_t told_delay_ns = 1'000'000'000;

}  // namespace unisono::launcher
