#include "bench/curves.h"

#include <fmt/format.h>

#include <algorithm>

namespace unisono::tools {

std::vector<Curve> curves_of(const std::vector<BenchRow>& rows) {
  std::vector<Curve> curves;
  for (const BenchRow& row : rows) {
    const auto is_known = [&](const Curve& curve) { return row.impl == roofline_impl ? curve.impl == roofline_impl : curve.has(row); };
    if (std::ranges::none_of(curves, is_known)) curves.push_back({.impl = row.impl, .set = row.set, .label = row.impl});
  }
  for (Curve& curve : curves) {
    const bool in_several = std::ranges::count_if(curves, [&](const Curve& other) { return other.impl == curve.impl; }) > 1;
    if (in_several) curve.label = fmt::format("{} beside {}", curve.impl, curve.set);
  }
  return curves;
}

std::vector<std::size_t> sizes_of(const std::vector<BenchRow>& rows) {
  std::vector<std::size_t> sizes;
  for (const BenchRow& row : rows) sizes.push_back(row.bytes);
  std::ranges::sort(sizes);
  sizes.erase(std::ranges::unique(sizes).begin(), sizes.end());
  return sizes;
}

double draw_legend(Svg& svg, const std::vector<LegendEntry>& entries, LegendPlace place) {
  constexpr double line = 22, sample = 40, gap = 24;  // pixels
  double x = place.left, y = place.top + line / 2;
  for (const LegendEntry& entry : entries) {
    const double width = sample + 6 + text_width(entry.label);
    if (x > place.left && x + width > place.right) {
      x = place.left;
      y += line;
    }
    svg.line({x, y - 4}, {x + sample, y - 4}, entry.stroke);
    if (entry.mark) entry.mark->mark(svg, {x + sample / 2, y - 4});
    svg.text(x + sample + 6, y, entry.label);
    x += width + gap;
  }
  return y + line / 2;
}

}  // namespace unisono::tools
