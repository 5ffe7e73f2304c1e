#pragma once

#include <string>
#include <vector>

#include "bench/rows.h"

namespace unisono::tools {

/// Returns a picture of the results (SVG): for each operation under each conditions the time and the bandwidth over the size, of every implementation
/// in every set, and the roofline. All axes are logarithmic; the rows are at least one.
std::string plot_of(const std::vector<BenchRow>& rows);

}  // namespace unisono::tools
