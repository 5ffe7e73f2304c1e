#pragma once

#include <chrono>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "base/printable.h"
#include "launch/output/output.h"
#include "launch/process/first_cause.h"
#include "recorder/reader.h"

namespace unisono::launcher {

/// Writes an account of a failure to standard error: the last lines of the first cause, one line about how the others ended, a hint where the kind of
/// end says little by itself, and last the first cause and how it ended. `last_lines` is empty where they are still in view.
void report_failure(Console& console, std::span<const RankEnd> ends, std::size_t cause, const std::deque<std::string>& last_lines);

/// Returns what the first rank to fail has said of this one, which it names as the culprit; empty: nothing.
std::string said_of(std::span<const RankEnd> ends, int rank);

/// Returns a possible reason for an end that says little by itself (SIGKILL); empty for others.
std::string hint_of(const RankEnd& end);

using base::name_ranks;

/// Returns "ranks 0, 2-4 exited with code 1, blaming rank 1; rank 5 was ended by the launcher", for all ranks but `cause`. `cause` is an index into
/// `ends`, or ends.size() to leave out none.
std::string describe_others(std::span<const RankEnd> ends, std::size_t cause);

/// Returns a sentence on how long the job took and how its ranks ended.
std::string summary_of_ends(std::span<const RankEnd> ends, std::chrono::nanoseconds duration);
/// Adds how much of its time each rank has waited for the others, by its record. A rank that has called nothing has no such share.
void add_waits(std::vector<RankEnd>& ends, std::span<const recorder::RankSeen> records);
/// Returns the positions, in ascending order, of those for whom the others wait. They wait less than the others, by at least 2 % of their time, and
/// by more than chance does to ranks that are alike. Empty: all wait alike, but for noise. `waits`: the shares of their time in which the ranks wait
/// for each other, from 0 to 1; `calls`: how many calls each of them has made at least.
std::vector<std::size_t> slowest_of(std::span<const double> waits, std::uint64_t calls);
/// Returns a sentence on which ranks waited for the others for how much of their time. Empty where there is nothing to compare.
std::string summary_of_waits(std::span<const RankEnd> ends);

}  // namespace unisono::launcher
