#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "launch/first_cause.h"
#include "launch/output.h"

namespace unisono::launcher {

/// After a failure, on standard error: the last lines of the first cause, in one line how the others ended, and last who was the first cause and how
/// it ended.
void report_failure(Console& console, std::span<const RankEnd> ends, std::size_t cause, const std::deque<std::string>& last_lines);

/// "rank 3", "ranks 0, 2-4", of ascending numbers.
std::string name_ranks(const std::vector<int>& ranks);

/// "ranks 0, 2-4 exited with code 1, blaming rank 1; rank 5 was ended by the launcher": everybody but `cause`.
std::string describe_others(std::span<const RankEnd> ends, std::size_t cause);

}  // namespace unisono::launcher
