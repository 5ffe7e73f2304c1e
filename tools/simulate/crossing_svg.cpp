#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "simulate/crossing.h"
#include "sizes.h"

namespace unisono::simulate {
namespace {

constexpr double left = 80, top = 50, width = 620, height = 380, bottom_margin = 60, legend = 190;  // pixels
constexpr std::array colours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933", "#882255"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

std::string time_text(double us) {
  if (us < 1e3) return fmt::format("{:g} µs", us);
  return us < 1e6 ? fmt::format("{:g} ms", us / 1e3) : fmt::format("{:g} s", us / 1e6);
}

/// The axes: the logarithm of bytes to the right, that of microseconds upwards.
class Axes {
 public:
  explicit Axes(const Crossing& crossing) {
    double least = Crossing::none, most = 0;
    for (const Crossing::Row& row : crossing.rows) {
      for (const double us : row.us) {
        if (us == Crossing::none || us <= 0) continue;
        least = std::min(least, us);
        most = std::max(most, us);
      }
    }
    first_ = std::log2(static_cast<double>(crossing.rows.front().bytes));
    last_ = std::max(std::log2(static_cast<double>(crossing.rows.back().bytes)), first_ + 1);
    low_ = most > 0 ? std::floor(std::log10(least)) : 0;
    high_ = most > 0 ? std::max(std::ceil(std::log10(most)), low_ + 1) : 1;
  }
  double x(std::size_t bytes) const { return left + width * (std::log2(static_cast<double>(bytes)) - first_) / (last_ - first_); }
  double y(double us) const { return top + height * (high_ - std::log10(us)) / (high_ - low_); }

  std::string lines(const Crossing& crossing) const {
    std::string out;
    for (int power = static_cast<int>(low_); power <= static_cast<int>(high_); ++power) {
      const double us = std::pow(10, power), at = y(us);
      out += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#dddddd\"/>\n", left, left + width, at, at);
      out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", left - 6, at + 4, time_text(us));
    }
    for (std::size_t i = 0; i < crossing.rows.size(); i += 2) {
      const double at = x(crossing.rows[i].bytes);
      out += fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\" stroke=\"#dddddd\"/>\n", at, at, top, top + height);
      out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", at, top + height + 18,
                         tools::format_bytes(crossing.rows[i].bytes));
    }
    return out;
  }

 private:
  double first_ = 0, last_ = 1, low_ = 0, high_ = 1;
};

std::string curve(const Crossing& crossing, const Axes& axes, std::size_t algorithm, const std::string& stroke) {
  std::string out, points;
  const auto end = [&] {
    if (!points.empty()) out += fmt::format("<polyline points=\"{}\" fill=\"none\" {}/>\n", points, stroke);
    points.clear();
  };
  for (const Crossing::Row& row : crossing.rows) {
    const double us = row.us[algorithm];
    if (us == Crossing::none || us <= 0) {
      end();
      continue;
    }
    points += fmt::format("{:.1f},{:.1f} ", axes.x(row.bytes), axes.y(us));
  }
  end();
  return out;
}

}  // namespace

std::string svg_of(const Crossing& crossing, const std::string& title) {
  const Axes axes(crossing);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{}\" y=\"24\" font-weight=\"bold\">{}</text>\n",
      left + width + legend, top + height + bottom_margin, left, escaped(title));
  out += axes.lines(crossing);
  for (std::size_t a = 0; a < crossing.algorithms.size(); ++a) {
    const std::string stroke = fmt::format("stroke=\"{}\" stroke-width=\"2\"", colours[a % colours.size()]);
    out += curve(crossing, axes, a, stroke);
    const double at = top + 14 + 20 * static_cast<double>(a);
    out += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" {}/>\n", left + width + 14, left + width + 38, at - 4, at - 4, stroke);
    out += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", left + width + 44, at, escaped(std::string(crossing.algorithms[a])));
  }
  // The fastest ones are marked, and the sizes at which they change.
  for (const Crossing::Row& row : crossing.rows) {
    const double us = row.us[row.fastest];
    if (us == Crossing::none || us <= 0) continue;
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", axes.x(row.bytes), axes.y(us),
                       colours[row.fastest % colours.size()]);
  }
  for (const Crossing::Point& point : crossing.points()) {
    const double at = axes.x(point.bytes);
    out += fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\" stroke=\"#888888\" stroke-dasharray=\"4 4\"/>\n", at, at, top,
                       top + height);
    out +=
        fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555555\">{}</text>\n", at, top - 6, tools::format_bytes(point.bytes));
  }
  return out + "</svg>\n";
}

}  // namespace unisono::simulate
