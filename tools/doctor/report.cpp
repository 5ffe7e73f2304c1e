#include "doctor/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/svg.h"
#include "common/text.h"

namespace unisono::tools {
namespace {

using Matrix = std::vector<std::vector<double>>;

/// The column in which the text of a finding begins.
constexpr std::size_t text_column = 10;
constexpr std::size_t least_cell = 7;

bool is_wrong(const Finding& finding) { return finding.kind == Finding::Kind::wrong; }

std::string text_of(const Finding& finding, bool with_host) {
  const std::string kind = is_wrong(finding) ? "wrong" : "remark";
  const std::string where = with_host && !finding.host.empty() ? finding.host + ": " : "";
  return pad_right(kind, text_column) + wrap(where + finding.text, text_column, text_column) + "\n" + pad_right("  to do", text_column) +
         wrap(finding.advice, text_column, text_column) + "\n";
}

std::string cell(double value) { return value == 0 ? "-" : fmt::format("{:.{}f}", value, value < 10 ? 1 : 0); }

std::string text_of(const std::vector<std::string>& hosts, const Matrix& matrix, const std::string& title) {
  std::size_t width = 9;
  for (const std::string& host : hosts) width = std::max(width, columns_of(host));
  std::string text = "\n" + title + "\n" + pad_right("from \\ to", width);
  for (const std::string& host : hosts) text += "  " + pad_left(host, least_cell);
  text += '\n';
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    text += pad_right(hosts[i], width);
    for (std::size_t j = 0; j < hosts.size(); ++j)
      text += "  " + pad_left(i == j ? "" : cell(matrix[i][j]), std::max(least_cell, columns_of(hosts[j])));
    text += '\n';
  }
  return text;
}

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
      const std::string text = value > 0 ? cell(value) : "none";
      svg.rect(x, y, side, side, fmt::format("fill=\"{}\" stroke=\"#888888\"", colour_of(value, median, more_is_better)));
      svg.text(x + half, y + half + 4, text, centred);
    }
  }
}

}  // namespace

bool is_anything_wrong(const Examination& examination) { return std::ranges::any_of(examination.findings, is_wrong); }

std::string text_of(const Examination& examination) {
  const bool several = examination.hosts.size() > 1;
  std::string text;
  Findings sorted = examination.findings;
  std::ranges::stable_sort(sorted, [](const Finding& a, const Finding& b) { return is_wrong(a) && !is_wrong(b); });
  for (const Finding& finding : sorted) text += text_of(finding, several);
  const auto wrong = static_cast<std::size_t>(std::ranges::count_if(sorted, is_wrong));
  text += fmt::format("{}: {}, {}\n", counted(examination.hosts.size(), "host"), wrong == 0 ? "nothing is wrong" : fmt::format("{} wrong", wrong),
                      counted(sorted.size() - wrong, "remark"));
  if (!several) return text;
  text += text_of(examination.hosts, examination.latency_us, "latency of 8 bytes over TCP, in µs");
  text += text_of(examination.hosts, examination.mebibytes_per_s, "bandwidth of one TCP connection, in MiB/s");
  return text;
}

Json json_of(const Examination& examination) {
  Json result{{"hosts", examination.hosts}, {"facts", examination.facts}, {"findings", examination.findings}};
  if (examination.hosts.size() > 1) {
    result["latency_us"] = examination.latency_us;
    result["mebibytes_per_s"] = examination.mebibytes_per_s;
  }
  return result;
}

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
