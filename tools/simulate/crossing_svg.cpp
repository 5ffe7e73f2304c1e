#include <algorithm>
#include <vector>

#include "simulate/crossing.h"
#include "common/sizes.h"
#include "common/svg.h"

namespace unisono::simulate {
namespace {

using tools::Pen;
using tools::Svg;

constexpr tools::LogPanel::Frame frame = {.left = 80, .top = 50, .width = 620, .height = 380};  // pixels
constexpr double bottom_margin = 60, legend = 190;

bool was_simulated(double us) { return us != Crossing::none && us > 0; }

tools::LogPanel::Range range_of_times(const Crossing& crossing) {
  tools::LogPanel::Range range{.least = Crossing::none, .most = 0};
  for (const Crossing::Row& row : crossing.rows) {
    for (const double us : row.us) {
      if (!was_simulated(us)) continue;
      range.least = std::min(range.least, us);
      range.most = std::max(range.most, us);
    }
  }
  return range;
}

void draw_grid(Svg& svg, const Crossing& crossing, const tools::LogPanel& panel) {
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < crossing.rows.size(); i += 2) sizes.push_back(crossing.rows[i].bytes);
  panel.grid(svg, sizes, tools::short_duration);
}

void draw_curve(Svg& svg, const Crossing& crossing, const tools::LogPanel& panel, std::size_t algorithm) {
  std::vector<Svg::Point> points;
  for (const Crossing::Row& row : crossing.rows) {
    const double us = row.us[algorithm];
    if (was_simulated(us)) {
      points.push_back(panel.at(static_cast<double>(row.bytes), us));
      continue;
    }
    svg.polyline(points, Pen(algorithm).stroke());
    points.clear();
  }
  svg.polyline(points, Pen(algorithm).stroke());
}

}  // namespace

std::string svg_of(const Crossing& crossing, const std::string& title) {
  const double right = frame.left + frame.width, bottom = frame.top + frame.height;
  const tools::LogPanel panel(frame,
                              {.least = static_cast<double>(crossing.rows.front().bytes), .most = static_cast<double>(crossing.rows.back().bytes)},
                              range_of_times(crossing));
  Svg svg(right + legend, bottom + bottom_margin);
  svg.text(frame.left, 24, title, "font-weight=\"bold\"");
  draw_grid(svg, crossing, panel);
  for (std::size_t a = 0; a < crossing.algorithms.size(); ++a) {
    draw_curve(svg, crossing, panel, a);
    const double at = frame.top + 14 + 20 * static_cast<double>(a);
    svg.line({right + 14, at - 4}, {right + 38, at - 4}, Pen(a).stroke());
    svg.text(right + 44, at, crossing.algorithms[a]);
  }
  // The fastest ones are marked, and the sizes at which they change.
  for (const Crossing::Row& row : crossing.rows) {
    const double us = row.us[row.fastest];
    if (was_simulated(us)) svg.circle(panel.at(static_cast<double>(row.bytes), us), 4, "fill=\"" + std::string(Pen(row.fastest).colour()) + "\"");
  }
  for (const Crossing::Point& point : crossing.points()) {
    const double at = panel.x(static_cast<double>(point.bytes));
    svg.line({at, frame.top}, {at, bottom}, "stroke=\"#888888\" stroke-dasharray=\"4 4\"");
    svg.text(at, frame.top - 6, tools::format_bytes(point.bytes), "text-anchor=\"middle\" fill=\"#555555\"");
  }
  return svg.finish();
}

}  // namespace unisono::simulate
