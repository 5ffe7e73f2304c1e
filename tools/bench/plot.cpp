#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "bench/curves.h"
#include "bench/report.h"
#include "common/svg.h"

namespace unisono::tools {

namespace {

// In pixels.
constexpr double panel_width = 360, panel_height = 220, left_margin = 80, panel_head = 40, panel_foot = 34, column_gap = 30, page_head = 40;
constexpr double column_width = left_margin + panel_width + column_gap;
constexpr double page_width = 2 * column_width;

/// A quantity that a panel shows.
struct Quantity {
  std::string_view title;
  double (*of)(const BenchRow&, double us);
  std::string (*name)(double);
};

double time_itself(const BenchRow&, double us) { return us; }
double bandwidth(const BenchRow& row, double us) { return static_cast<double>(row.bytes) / us / 1000; }
std::string bandwidth_name(double gigabytes) {
  if (gigabytes >= 1) return fmt::format("{:g} GB/s", gigabytes);
  return gigabytes >= 1e-3 ? fmt::format("{:g} MB/s", gigabytes * 1e3) : fmt::format("{:g} kB/s", gigabytes * 1e6);
}

constexpr Quantity times = {.title = "time", .of = time_itself, .name = short_duration};
constexpr Quantity bandwidths = {.title = "bandwidth: bytes by time", .of = bandwidth, .name = bandwidth_name};

LogPanel panel_for(const std::vector<BenchRow>& rows, const Quantity& quantity, LogPanel::Frame frame) {
  constexpr double none = std::numeric_limits<double>::infinity();
  LogPanel::Range bytes{.least = none, .most = 0}, values{.least = none, .most = 0};
  for (const BenchRow& row : rows) {
    const auto size = static_cast<double>(row.bytes);
    bytes = {.least = std::min(bytes.least, size), .most = std::max(bytes.most, size)};
    for (const double us : {row.time_us.low, row.time_us.high}) {
      if (us <= 0) continue;
      const double value = quantity.of(row, us);
      values = {.least = std::min(values.least, value), .most = std::max(values.most, value)};
    }
  }
  return {frame, bytes, values};
}

void draw_curve(Svg& svg, const std::vector<BenchRow>& rows, const Curve& curve, const Quantity& quantity, const LogPanel& panel, Pen pen) {
  std::vector<Svg::Point> points;
  for (const BenchRow& row : rows) {
    if (!curve.has(row) || row.time_us.low <= 0) continue;
    const auto size = static_cast<double>(row.bytes);
    points.push_back(panel.at(size, quantity.of(row, row.time_us.middle)));
    svg.line(panel.at(size, quantity.of(row, row.time_us.low)), panel.at(size, quantity.of(row, row.time_us.high)), pen.stroke(false));
  }
  std::ranges::stable_sort(points, {}, [](const Svg::Point& point) { return point.x; });
  svg.polyline(points, pen.stroke());
  for (const Svg::Point& point : points) pen.mark(svg, point);
}

void draw_panel(Svg& svg, const std::vector<BenchRow>& rows, const std::vector<Curve>& curves, const Quantity& quantity, Svg::Point corner) {
  const LogPanel panel =
      panel_for(rows, quantity, {.left = corner.x + left_margin, .top = corner.y + panel_head, .width = panel_width, .height = panel_height});
  svg.text(corner.x + left_margin, corner.y + panel_head - 6, quantity.title);
  panel.grid(svg, sizes_of(rows), quantity.name);
  for (std::size_t i = 0; i < curves.size(); ++i) draw_curve(svg, rows, curves[i], quantity, panel, Pen(i));
}

}  // namespace

std::string plot_of(const std::vector<BenchRow>& rows) {
  std::vector<Curve> curves = curves_of(rows);
  for (Curve& curve : curves)
    if (curve.impl == roofline_impl) curve.label = "roofline: every rank copies the same number of bytes";
  std::vector<LegendEntry> legend;
  for (std::size_t i = 0; i < curves.size(); ++i) legend.push_back({.label = curves[i].label, .stroke = Pen(i).stroke(), .mark = Pen(i)});
  const auto panels = grouped(rows, [](const BenchRow& row) { return std::tie(row.operation, row.conditions); });
  constexpr double row_height = panel_head + panel_height + panel_foot + 20;
  constexpr LegendPlace place = {.left = left_margin, .top = page_head, .right = page_width};
  Svg measured(0, 0);
  const double begin = draw_legend(measured, legend, place);
  Svg svg(page_width, begin + row_height * static_cast<double>(panels.size()));
  svg.text(left_margin, 24, "unisono bench: the median of the rounds, with its 95 % interval", "font-weight=\"bold\"");
  draw_legend(svg, legend, place);
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const double top = begin + row_height * static_cast<double>(i);
    const BenchRow& any = panels[i].front();
    svg.text(left_margin, top + 18, fmt::format("{}: {}", bench::to_string(any.operation), text_of(any.conditions)), "font-weight=\"bold\"");
    draw_panel(svg, panels[i], curves, times, {.x = 0, .y = top});
    if (any.bytes != 0) draw_panel(svg, panels[i], curves, bandwidths, {.x = column_width, .y = top});
  }
  return svg.finish();
}

}  // namespace unisono::tools
