#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "base/printable.h"
#include "launch/output/output.h"
#include "launch/process/first_cause.h"

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

}  // namespace unisono::launcher
