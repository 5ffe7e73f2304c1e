#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/merge.h"
#include "trace/profiler.h"
#include "trace/totals.h"

namespace unisono::tools {

/// What page_parts.cpp.in holds: the page in front of its data and behind it.
extern const std::string_view page_head, page_script;

/// Calls that a page shows; of more than these the shortest ones are left out, which it says.
inline constexpr std::uint64_t most_calls_of_page = 1'000'000;

/// Writes the trace as a page for a browser: a timeline and totals, in one file that needs no other one.
void write_page(const JobTrace& trace, const Merge& merge, const Totals& totals, const std::vector<ProfilerFile>& profiles, const std::string& path,
                std::uint64_t most_calls = most_calls_of_page);

}  // namespace unisono::tools
