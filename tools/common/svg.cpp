#include "common/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "common/text.h"

namespace unisono::tools {
namespace {

struct PenLook {
  std::string_view colour, dashes;
};

// Colours that most people with a colour blindness can tell apart (Okabe and Ito), and three more.
constexpr std::array pen_looks = {PenLook{"#0072b2", ""},         PenLook{"#d55e00", "8 3"},     PenLook{"#009e73", "3 3"},
                                  PenLook{"#cc79a7", "10 3 2 3"}, PenLook{"#e69f00", "1 3"},     PenLook{"#56b4e9", "12 2"},
                                  PenLook{"#000000", "6 2 2 2"},  PenLook{"#999933", "2 2 8 2"}, PenLook{"#882255", "14 4 4 4"}};

std::string xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out.append("&lt;"); break;
      case '>': out.append("&gt;"); break;
      case '&': out.append("&amp;"); break;
      case '"': out.append("&quot;"); break;
      default: out.push_back(c);
    }
  }
  return out;
}

/// A tenth of a pixel is as exact as a picture needs.
std::string px(double value) { return fmt::format("{:.6g}", std::round(value * 10) / 10); }

std::string list_of(std::span<const Svg::Point> points) {
  std::string list;
  for (const Svg::Point& point : points) list.append(list.empty() ? "" : " ").append(px(point.x)).append(",").append(px(point.y));
  return list;
}

}  // namespace

Svg::Svg(double width, double height)
    : out_(fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" "
                       "font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
                       px(width), px(height))) {}

void Svg::text(double x, double y, std::string_view text, std::string_view more) {
  out_ += fmt::format("<text x=\"{}\" y=\"{}\"{}{}>{}</text>\n", px(x), px(y), more.empty() ? "" : " ", more, xml(text));
}

void Svg::line(Point from, Point to, std::string_view more) {
  out_ += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" {}/>\n", px(from.x), px(to.x), px(from.y), px(to.y), more);
}

void Svg::polyline(std::span<const Point> points, std::string_view more) {
  if (!points.empty()) out_ += fmt::format("<polyline points=\"{}\" fill=\"none\" {}/>\n", list_of(points), more);
}

void Svg::rect(double x, double y, double width, double height, std::string_view more) {
  out_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {}/>\n", px(x), px(y), px(width), px(height), more);
}

void Svg::circle(Point centre, double radius, std::string_view more) {
  out_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" {}/>\n", px(centre.x), px(centre.y), px(radius), more);
}

void Svg::polygon(std::span<const Point> points, std::string_view more) {
  out_ += fmt::format("<polygon points=\"{}\" {}/>\n", list_of(points), more);
}

std::string_view Pen::colour() const { return pen_looks[number_ % pen_looks.size()].colour; }

std::string Pen::stroke(bool dashed) const {
  const PenLook& look = pen_looks[number_ % pen_looks.size()];
  const std::string dashes = dashed && !look.dashes.empty() ? fmt::format(" stroke-dasharray=\"{}\"", look.dashes) : std::string();
  return fmt::format("stroke=\"{}\" stroke-width=\"2\"{}", look.colour, dashes);
}

void Pen::mark(Svg& svg, Svg::Point at) const {
  constexpr double r = 4;
  const std::string filled = fmt::format("fill=\"{}\"", colour());
  const std::string hollow = fmt::format("fill=\"white\" stroke=\"{}\" stroke-width=\"1.5\"", colour());
  const auto up = std::array{Svg::Point{at.x, at.y - r}, Svg::Point{at.x + r, at.y + r}, Svg::Point{at.x - r, at.y + r}};
  const auto down = std::array{Svg::Point{at.x, at.y + r}, Svg::Point{at.x + r, at.y - r}, Svg::Point{at.x - r, at.y - r}};
  const auto diamond = std::array{Svg::Point{at.x, at.y - r}, Svg::Point{at.x + r, at.y}, Svg::Point{at.x, at.y + r}, Svg::Point{at.x - r, at.y}};
  switch (number_ % 8) {
    case 0: return svg.circle(at, r, filled);
    case 1: return svg.rect(at.x - r, at.y - r, 2 * r, 2 * r, hollow);
    case 2: return svg.polygon(up, filled);
    case 3: return svg.polygon(diamond, hollow);
    case 4: return svg.circle(at, r, hollow);
    case 5: return svg.rect(at.x - r, at.y - r, 2 * r, 2 * r, filled);
    case 6: return svg.polygon(down, hollow);
    default: return svg.polygon(diamond, filled);
  }
}

double text_width(std::string_view text) {
  constexpr double letter = 7.5;  // of 13 pixels
  return letter * static_cast<double>(columns_of(text));
}

LogPanel::LogPanel(Frame frame, Range bytes, Range values) : frame_(frame), base_(values.base) {
  first_ = std::log2(std::max(bytes.least, 1.0));
  last_ = std::max(std::log2(std::max(bytes.most, 1.0)), first_ + 1);
  if (values.least > 0 && values.most > 0) {
    low_ = std::floor(std::log10(values.least) / std::log10(base_));
    high_ = std::max(std::ceil(std::log10(values.most) / std::log10(base_)), low_ + 1);
  }
}

double LogPanel::x(double bytes) const { return frame_.left + frame_.width * (std::log2(std::max(bytes, 1.0)) - first_) / (last_ - first_); }

double LogPanel::y(double value) const { return frame_.top + frame_.height * (high_ - std::log10(value) / std::log10(base_)) / (high_ - low_); }

void LogPanel::grid(Svg& svg, std::span<const std::size_t> sizes, const std::function<std::string(double)>& name_of) const {
  constexpr std::string_view thin = "stroke=\"#dddddd\"";
  const double right = frame_.left + frame_.width, bottom = frame_.top + frame_.height;
  for (int power = static_cast<int>(low_); power <= static_cast<int>(high_); ++power) {
    const double value = std::pow(base_, power), height = y(value);
    svg.line({frame_.left, height}, {right, height}, thin);
    svg.text(frame_.left - 6, height + 4, name_of(value), ends_there);
  }
  constexpr double gap = 8;
  double free = -gap;
  for (const std::size_t bytes : sizes) {
    const double place = x(static_cast<double>(bytes));
    svg.line({place, frame_.top}, {place, bottom}, thin);
    const std::string name = bytes == 0 ? "no data" : format_bytes(bytes);
    const double half = text_width(name) / 2;
    if (place - half < free) continue;
    free = place + half + gap;
    svg.text(place, bottom + 18, name, centred);
  }
  svg.text(frame_.left + frame_.width / 2, bottom + 34, "size of a rank's larger buffer", centred);
}

std::string short_duration(double us) {
  if (us < 1e3) return fmt::format("{:g} µs", us);
  return us < 1e6 ? fmt::format("{:g} ms", us / 1e3) : fmt::format("{:g} s", us / 1e6);
}

}  // namespace unisono::tools
