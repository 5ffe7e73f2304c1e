#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "bench/curves.h"
#include "bench/report.h"
#include "common/svg.h"
#include "common/text.h"
#include "unisono/error.h"

namespace unisono::tools {
namespace {

// In pixels. A column is for a width of 80 mm: there, the letters of 13 pixels are those of 7 points.
constexpr double ratio_column_width = 420, edge = 10, ratio_left_margin = 52, ratio_right_margin = 28, ratio_page_head = 34, text_line = 17;
constexpr double ratio_panel_height = 170, ratio_panel_head = 42, ratio_panel_foot = 52;
constexpr double ratio_panel_width = ratio_column_width - ratio_left_margin - ratio_right_margin;
constexpr double ratio_row_height = ratio_panel_head + ratio_panel_height + ratio_panel_foot;
constexpr std::string_view fastest_stroke = "stroke=\"#c8c8c8\" stroke-width=\"8\"";
constexpr std::string_view title = "Times of others, as multiples of unisono's";

/// What lies beyond these is drawn at the edge: differences near 1 are those that matter.
constexpr double least_shown = 0.125, most_shown = 16;

double shown(double ratio) { return std::clamp(ratio, least_shown, most_shown); }

std::vector<BenchRow> rows_with_ratio(const std::vector<BenchRow>& rows) {
  std::vector<BenchRow> found;
  std::ranges::copy_if(rows, std::back_inserter(found), [](const BenchRow& row) { return is_of_peer(row) && row.ratio && row.ratio->middle > 0; });
  return found;
}

/// The ratios of a curve, or the least ones, by size.
using Ratios = std::map<std::size_t, double>;

Ratios fastest_of(const std::vector<BenchRow>& rows) {
  Ratios least;
  for (const BenchRow& row : rows) {
    const auto [at, is_new] = least.try_emplace(row.bytes, row.ratio->middle);
    if (!is_new) at->second = std::min(at->second, row.ratio->middle);
  }
  return least;
}

Ratios ratios_of(const std::vector<BenchRow>& rows, const Curve& curve) {
  Ratios ratios;
  for (const BenchRow& row : rows)
    if (curve.has(row)) ratios.emplace(row.bytes, row.ratio->middle);
  return ratios;
}

std::vector<Svg::Point> points_of(const LogPanel& panel, const Ratios& ratios) {
  std::vector<Svg::Point> points;
  for (const auto& [bytes, ratio] : ratios) points.push_back(panel.at(static_cast<double>(bytes), shown(ratio)));
  return points;
}

LogPanel panel_for(const std::vector<BenchRow>& rows, Svg::Point corner) {
  const std::vector<std::size_t> sizes = sizes_of(rows);
  LogPanel::Range values{.least = 0.5, .most = 2, .base = 2};
  for (const BenchRow& row : rows) {
    values.least = std::min(values.least, shown(row.ratio->middle));
    values.most = std::max(values.most, shown(row.ratio->middle));
  }
  return {{.left = corner.x + ratio_left_margin, .top = corner.y + ratio_panel_head, .width = ratio_panel_width, .height = ratio_panel_height},
          {.least = static_cast<double>(sizes.front()), .most = static_cast<double>(sizes.back())},
          values};
}

void draw_panel(Svg& svg, const std::vector<BenchRow>& rows, const std::vector<Curve>& curves, Svg::Point corner) {
  const LogPanel panel = panel_for(rows, corner);
  const auto has = [&](const auto& condition) {
    return std::ranges::any_of(rows, [&](const BenchRow& row) { return condition(row.ratio->middle); });
  };
  const bool goes_on_above = has([](double ratio) { return ratio > most_shown; }),
             goes_on_below = has([](double ratio) { return ratio < least_shown; });
  const auto name_of = [&](double ratio) {
    const bool is_edge = (ratio >= most_shown && goes_on_above) || (ratio <= least_shown && goes_on_below);
    return fmt::format("{}{:g}", !is_edge ? "" : ratio > 1 ? "≥ " : "≤ ", ratio);
  };
  svg.text(corner.x + edge, corner.y + 18, bench::to_string(rows.front().operation), "font-weight=\"bold\"");
  svg.text(corner.x + edge, corner.y + ratio_panel_head - 7, "time by unisono's: above 1, unisono is faster");
  panel.grid(svg, sizes_of(rows), name_of);
  if (curves.size() > 1) svg.polyline(points_of(panel, fastest_of(rows)), fastest_stroke);
  svg.line({corner.x + ratio_left_margin, panel.y(1)}, {corner.x + ratio_left_margin + ratio_panel_width, panel.y(1)}, "stroke=\"black\"");
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const std::vector<Svg::Point> points = points_of(panel, ratios_of(rows, curves[i]));
    svg.polyline(points, Pen(i).stroke());
    for (const Svg::Point& point : points) Pen(i).mark(svg, point);
  }
}

/// Returns the curves; a library is called by its own name and version where that is short.
std::vector<Curve> named_curves(const std::vector<BenchRow>& rows) {
  constexpr std::size_t most_columns = 20;
  std::vector<Curve> curves = curves_of(rows);
  for (Curve& curve : curves) {
    const auto row = std::ranges::find_if(rows, [&](const BenchRow& each) { return curve.has(each); });
    if (curve.label == curve.impl && !row->version.empty() && columns_of(row->version) <= most_columns) curve.label = row->version;
  }
  return curves;
}

std::vector<LegendEntry> legend_of(const std::vector<Curve>& curves) {
  std::vector<LegendEntry> entries;
  for (std::size_t i = 0; i < curves.size(); ++i) entries.push_back({.label = curves[i].label, .stroke = Pen(i).stroke(), .mark = Pen(i)});
  if (curves.size() > 1) entries.push_back({.label = "the fastest of these", .stroke = std::string(fastest_stroke)});
  return entries;
}

std::vector<std::string> lines_of(const std::string& text) {
  const auto columns = static_cast<std::size_t>((ratio_column_width - 2 * edge) / text_width("x"));
  const std::string wrapped = wrap(text, 0, 0, columns);
  std::vector<std::string> lines;
  for (std::size_t at = 0; at <= wrapped.size();) {
    const std::size_t end = std::min(wrapped.find('\n', at), wrapped.size());
    lines.push_back(wrapped.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace

std::string ratio_plot_of(const std::vector<BenchRow>& all) {
  const std::vector<BenchRow> rows = rows_with_ratio(all);
  if (rows.empty()) throw InvalidArgument("there is no result of another library beside unisono's", {.hint = "for example --peers openmpi"});
  const std::vector<Curve> curves = named_curves(rows);
  const std::vector<LegendEntry> legend = legend_of(curves);
  const auto columns = grouped(rows, [](const BenchRow& row) { return row.conditions; });
  const auto operations = grouped(rows, [](const BenchRow& row) { return row.operation; });
  std::size_t lines = 0;
  for (const auto& column : columns) lines = std::max(lines, lines_of(text_of(column.front().conditions)).size());

  const double width = ratio_column_width * static_cast<double>(columns.size());
  const LegendPlace place = {.left = edge, .top = ratio_page_head, .right = width - edge};
  Svg measured(0, 0);
  const double begin = draw_legend(measured, legend, place), first_panel = begin + text_line * static_cast<double>(lines);
  Svg svg(width, first_panel + ratio_row_height * static_cast<double>(operations.size()));
  svg.text(edge, 22, title, "font-weight=\"bold\"");
  draw_legend(svg, legend, place);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const double left = ratio_column_width * static_cast<double>(c);
    double y = begin + 12;
    for (const std::string& line : lines_of(text_of(columns[c].front().conditions))) {
      svg.text(left + edge, y, line);
      y += text_line;
    }
    for (std::size_t r = 0; r < operations.size(); ++r) {
      std::vector<BenchRow> panel;
      std::ranges::copy_if(columns[c], std::back_inserter(panel),
                           [&](const BenchRow& row) { return row.operation == operations[r].front().operation; });
      if (!panel.empty()) draw_panel(svg, panel, curves, {.x = left, .y = first_panel + ratio_row_height * static_cast<double>(r)});
    }
  }
  return svg.finish();
}

}  // namespace unisono::tools
