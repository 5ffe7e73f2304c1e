#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule/algorithm.h"

namespace unisono::schedule {

/// All algorithms, in the order in which they are preferred for their operation.
std::span<const Algorithm> table();

/// The table as text: an operation, and its algorithms with their limits. For `unisono info --schedules`.
std::vector<std::pair<std::string, std::string>> describe_table();

/// UNISONO_SCHEDULE: "all_reduce=shares,broadcast=exchange" prefers these wherever they can be used, whatever the size. InvalidArgument names what is
/// wrong. All ranks must be given the same.
void check_override(std::string_view text);
/// The value of this process's environment, read once; "" where it is not set.
const std::string& schedule_override();

}  // namespace unisono::schedule
