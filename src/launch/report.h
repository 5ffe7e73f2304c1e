#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "ground/rank_list.h"
#include "launch/first_cause.h"
#include "launch/output.h"

namespace unisono::launcher {

/// After a failure, on standard error: who was the first cause, how it ended, its last lines, a hint where the end says little by itself, and in one
/// line how the others ended. `last_lines`: empty where they are still the last thing that a rank has written there.
void report_failure(Console& console, std::span<const RankEnd> ends, std::size_t cause, const std::deque<std::string>& last_lines);

/// What may be behind an end that says little by itself (SIGKILL); empty for others.
std::string hint_of(const RankEnd& end);

using ground::name_ranks;

/// "ranks 0, 2-4 exited with code 1, blaming rank 1; rank 5 was ended by the launcher": everybody but `cause`, an index into `ends` or behind them.
std::string describe_others(std::span<const RankEnd> ends, std::size_t cause);

}  // namespace unisono::launcher
