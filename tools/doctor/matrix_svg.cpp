#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "doctor/report.h"
#include "common/svg.h"

namespace unisono::tools {
namespace {

using Matrix = std::vector<std::vector<double>>;

constexpr int side = 56, half = side / 2, gap = 40, head = 60;  // of a cell, between the panels, above them: pixels
constexpr int letter = 8;                                       // the width of one, about

/// The middle value of the pairs that were measured; pairs are coloured by how much worse than that they are.
double median_of(const Matrix& matrix) {
  std::vector<double> values;
  for (const auto& row : matrix)
    for (const double value : row)
      if (value > 0) values.push_back(value);
  if (values.empty()) return 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// White for the median or better, to red for four times worse; grey where nothing was measured.
std::string colour_of(double value, double median, bool more_is_better) {
  if (value <= 0) return "#cccccc";
  const double worse = std::clamp(std::log2(more_is_better ? median / value : value / median) / 2, 0.0, 1.0);
  const int rest = static_cast<int>(255 - 175 * worse);
  return fmt::format("#ff{:02x}{:02x}", rest, rest);
}

/// Where a panel begins, and how wide the names of its rows are.
struct PanelStart {
  int left, margin;
};

void draw_panel(Svg& svg, const Examination& examination, const Matrix& matrix, const std::string& title, bool more_is_better, PanelStart place) {
  const int left = place.left + place.margin;
  svg.text(place.left, 20, title, "font-weight=\"bold\"");
  const double median = median_of(matrix);
  const auto& hosts = examination.hosts;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const int y = head + static_cast<int>(i) * side;
    svg.text(left - 6, y + half + 4, hosts[i], ends_there);
    svg.text(left + static_cast<int>(i) * side + half, head - 8, hosts[i], centred);
    for (std::size_t j = 0; j < hosts.size(); ++j) {
      if (i == j) continue;
      const int x = left + static_cast<int>(j) * side;
      const double value = matrix[i][j];
      const std::string text = value > 0 ? fmt::format("{:.{}f}", value, value < 10 ? 1 : 0) : "none";
      svg.rect(x, y, side, side, fmt::format("fill=\"{}\" stroke=\"#888888\"", colour_of(value, median, more_is_better)));
      svg.text(x + half, y + half + 4, text, centred);
    }
  }
}

}  // namespace

std::string svg_of(const Examination& examination) {
  std::size_t longest = 0;
  for (const std::string& host : examination.hosts) longest = std::max(longest, host.size());
  const int margin = static_cast<int>(longest) * letter + gap / 2;
  const int count = static_cast<int>(examination.hosts.size());
  const int width = std::max(margin + count * side, 300) + gap;
  Svg svg(2 * width, head + count * side + gap);
  draw_panel(svg, examination, examination.latency_us, "latency of 8 bytes, µs (row to column)", false, {.left = gap / 2, .margin = margin});
  draw_panel(svg, examination, examination.mebibytes_per_s, "bandwidth, MiB/s (row to column)", true, {.left = width + gap / 2, .margin = margin});
  return svg.finish();
}

}  // namespace unisono::tools
