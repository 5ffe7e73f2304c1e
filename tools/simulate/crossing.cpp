#include "simulate/crossing.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "common/svg.h"
#include "common/text.h"
#include "schedule/selection.h"
#include "unisono/error.h"

namespace unisono::simulate {
namespace {

constexpr std::size_t least_bytes = 8, step = 4;
constexpr double hopeless = 10;       // times as long as another one by the formula
constexpr double few_messages = 2e7;  // of one simulation: there are many

/// Returns the algorithms that can carry the call out.
std::vector<std::string_view> algorithms_of(Call call, const Parameters& parameters) {
  std::vector<std::string_view> names;
  for (const schedule::Algorithm& row : schedule::rows_of(call.operation)) {
    if (row.cost == nullptr) continue;
    call.algorithm = row.name;
    try {
      const ProgramWriter writer(call, parameters);
      names.push_back(writer.algorithm());
    } catch (const InvalidArgument&) {  // NOLINT(bugprone-empty-catch): it needs several ranks on a host, or an engine without channels
    }
  }
  return names;
}

double us_of(const Call& call, const SimulationOptions& options) {
  try {
    return simulate(call, options).us;
  } catch (const TooLarge&) {
    return Crossing::none;
  }
}

Crossing::Row row_of(Call call, const SimulationOptions& options, const std::vector<std::string_view>& algorithms) {
  Crossing::Row row{.bytes = call.bytes};
  std::vector<double> expected;
  for (const std::string_view name : algorithms) {
    call.algorithm = name;
    expected.push_back(ProgramWriter(call, options.parameters).expected_us());
  }
  const double least = *std::ranges::min_element(expected);
  for (std::size_t i = 0; i < algorithms.size(); ++i) {
    call.algorithm = algorithms[i];
    row.us.push_back(expected[i] <= hopeless * least ? us_of(call, options) : Crossing::none);
  }
  row.fastest = static_cast<std::size_t>(std::ranges::min_element(row.us) - row.us.begin());
  call.algorithm = {};
  const bool had_agreement = std::exchange(call.has_agreement, false);  // which would carry few bytes with it
  row.selected = ProgramWriter(call, options.parameters).algorithm();
  call.has_agreement = had_agreement;
  const auto selected = std::ranges::find(algorithms, row.selected);
  row.selected_us = selected == algorithms.end() ? Crossing::none : row.us[static_cast<std::size_t>(selected - algorithms.begin())];
  return row;
}

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

std::vector<Crossing::Point> Crossing::points() const {
  std::vector<Point> found;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const Row& below = rows[i - 1];
    const Row& above = rows[i];
    if (below.fastest == above.fastest || below.us[below.fastest] == none || above.us[above.fastest] == none) continue;
    // The logarithm of the quotient of the two algorithms' times, at both sizes.
    const double before = std::log(below.us[above.fastest] / below.us[below.fastest]);
    const double after = std::log(above.us[below.fastest] / above.us[above.fastest]);
    const double part = std::isfinite(before) && std::isfinite(after) && before + after > 0 ? before / (before + after) : 0.5;
    const double bytes = static_cast<double>(below.bytes) * std::pow(static_cast<double>(above.bytes) / static_cast<double>(below.bytes), part);
    found.push_back({static_cast<std::size_t>(std::lround(bytes)), algorithms[below.fastest], algorithms[above.fastest]});
  }
  return found;
}

Crossing cross(Call call, const SimulationOptions& given, std::size_t most_bytes) {
  SimulationOptions options = given;
  options.most_messages = few_messages;
  options.progress = {};
  Crossing crossing;
  crossing.algorithms = algorithms_of(call, options.parameters);
  if (crossing.algorithms.empty()) throw InvalidArgument("there is nothing to compare: no schedule does this call");
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = least_bytes; bytes <= std::max(most_bytes, least_bytes); bytes *= step) sizes.push_back(bytes);
  for (const std::size_t bytes : sizes) {
    if (given.progress) given.progress(static_cast<double>(crossing.rows.size()) / static_cast<double>(sizes.size()));
    call.bytes = bytes;
    crossing.rows.push_back(row_of(call, options, crossing.algorithms));
  }
  return crossing;
}

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
