#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "bench/rows.h"

namespace unisono::tools {

/// Returns the rows of each set and its conditions together, in the order in which these first appear.
std::vector<std::vector<BenchRow>> groups_of(const std::vector<BenchRow>& rows);

/// Prints one group in 80 columns. The roofline is left out where it is no bound: where a copy stays within a core's own cache of `cache_bytes`,
/// which cannot hold what other ranks wrote, and for operations that move less than a copy on all ranks.
void print_table(std::ostream& out, const std::vector<BenchRow>& rows, std::size_t cache_bytes);

/// An operation at one size, measured for unisono, and the other libraries beside it in any set. It refers to the rows it was made from.
struct BenchCell {
  BenchConditions conditions = {};
  bench::Operation operation = bench::Operation::barrier;
  std::size_t bytes = 0;
  std::vector<const BenchRow*> peers = {};  ///< one row of each library; the fastest, by unisono in its own set, comes first

  /// Returns the time of the fastest library by unisono's, if any was measured.
  std::optional<double> ratio() const { return peers.empty() ? std::nullopt : std::optional(peers.front()->ratio->middle); }
};

std::vector<BenchCell> cells_of(const std::vector<BenchRow>& rows);

/// Returns what the rows come to, in lines of 80 columns: how fast unisono is, and in how many cells another library is faster.
std::string summary_of(const std::vector<BenchRow>& rows);

/// Returns which cells lie below the limit, as a message; empty if none does. Cells without another library do not count; a message says so where
/// there are no others.
std::string below_limit(const std::vector<BenchCell>& cells, double limit);

/// Returns a picture of the results (SVG): for each operation under each conditions the time and the bandwidth over the size, of every implementation
/// in every set, and the roofline. All axes are logarithmic; the rows are at least one.
std::string plot_of(const std::vector<BenchRow>& rows);

/// Returns a picture of the ratios (SVG), whose columns are for a width of 80 mm: for each operation under each conditions the time of each other
/// library by unisono's over the size, and of the fastest of them. Throws InvalidArgument where there is no other library.
std::string ratio_plot_of(const std::vector<BenchRow>& rows);

}  // namespace unisono::tools
