#pragma once

#include <cstddef>
#include <iosfwd>
#include <vector>

#include "bench/rows.h"

namespace unisono::tools {

/// Returns the rows of each set and its conditions together, in the order in which these first appear.
std::vector<std::vector<BenchRow>> groups_of(const std::vector<BenchRow>& rows);

/// Prints one group in 80 columns. The roofline is left out where it is no bound: where a copy stays within a core's own cache of `cache_bytes`,
/// which cannot hold what other ranks wrote, and for operations that move less than a copy on all ranks.
void print_table(std::ostream& out, const std::vector<BenchRow>& rows, std::size_t cache_bytes);

}  // namespace unisono::tools
