#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/rows.h"
#include "common/svg.h"

namespace unisono::tools {

/// A curve of a plot: an implementation within a set. It has the same pen in all panels.
struct Curve {
  std::string impl = {}, set = {};
  std::string label = {};
  bool has(const BenchRow& row) const { return row.impl == impl && row.set == set; }
};

/// Returns the curves in the order in which they first appear in the rows. The roofline is one curve: every set copies as fast as the others.
std::vector<Curve> curves_of(const std::vector<BenchRow>& rows);

/// Returns the sizes of the rows, in ascending order, each once.
std::vector<std::size_t> sizes_of(const std::vector<BenchRow>& rows);

/// A line of a plot, and its meaning.
struct LegendEntry {
  std::string label = {};
  std::string stroke = {};  ///< the attributes of the line
  std::optional<Pen> mark = {};
};

struct LegendPlace {
  double left = 0, top = 0, right = 0;
};

/// Draws the entries, as many beside each other as fit, and returns where what is below may begin.
double draw_legend(Svg& svg, const std::vector<LegendEntry>& entries, LegendPlace place);

}  // namespace unisono::tools
