#pragma once

#include <iosfwd>
#include <nlohmann/json.hpp>

namespace unisono::tools {

/// Prints what one call takes of each rank: system calls, wakings, copies and waits, beside the call's time. `counts`: of a set, as rank 0 of its
/// driver reports it.
void print_counts(std::ostream& out, const nlohmann::json& counts);

}  // namespace unisono::tools
