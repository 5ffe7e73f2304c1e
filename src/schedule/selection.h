#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule/algorithm.h"

namespace unisono::schedule {

/// Returns all algorithms, in their order of preference for an operation.
std::span<const Algorithm> table();

/// Returns the table as text for `unisono info --schedules`: an operation, and its algorithms with their limits.
std::vector<std::pair<std::string, std::string>> describe_table();

/// Checks a text of UNISONO_SCHEDULE: "all_reduce=shares,broadcast=exchange" prefers these algorithms wherever they can be used, whatever the size.
/// Throws InvalidArgument for any other form. All ranks must be given the same text.
void check_override(std::string_view text);
/// Returns UNISONO_SCHEDULE of this process, read once; "" where it is not set.
const std::string& schedule_override();
/// Returns true where UNISONO_SCHEDULE names an algorithm for the operation.
bool is_overridden(Operation operation);

}  // namespace unisono::schedule
