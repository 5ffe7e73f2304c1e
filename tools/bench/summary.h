#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/rows.h"

namespace unisono::tools {

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

}  // namespace unisono::tools
