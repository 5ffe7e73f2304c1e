#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::tools {

/// A picture in SVG 1.1, drawn element by element, that needs no other file. Positions are pixels from its upper left corner.
class Svg {
 public:
  struct Point {
    double x = 0, y = 0;
  };

  Svg(double width, double height);

  // `more` is further attributes of the element.
  void text(double x, double y, std::string_view text, std::string_view more = {});
  void line(Point from, Point to, std::string_view more);
  void polyline(std::span<const Point> points, std::string_view more);
  void rect(double x, double y, double width, double height, std::string_view more);
  void circle(Point centre, double radius, std::string_view more);
  void polygon(std::span<const Point> points, std::string_view more);
  /// Returns the whole picture.
  std::string finish() const { return out_ + "</svg>\n"; }

 private:
  std::string out_;
};

inline constexpr std::string_view centred = "text-anchor=\"middle\"";
inline constexpr std::string_view ends_there = "text-anchor=\"end\"";

/// How a curve is drawn: curves differ in colour, in their dashes and in the marks of their points, so that they can be told apart in black and
/// white.
class Pen {
 public:
  explicit Pen(std::size_t number) : number_(number) {}
  /// Returns the attributes of its line.
  std::string stroke(bool dashed = true) const;
  std::string_view colour() const;
  void mark(Svg& svg, Svg::Point at) const;

 private:
  std::size_t number_;
};

/// Returns about how wide a line of text is, in pixels: a little more than it is in the usual fonts.
double text_width(std::string_view text);

/// A panel whose axes are logarithmic: bytes to the right, another quantity upwards.
class LogPanel {
 public:
  struct Range {
    double least = 1, most = 1;
    double base = 10;
  };
  struct Frame {
    double left = 0, top = 0, width = 0, height = 0;
  };

  /// `values` is widened to whole powers of its base.
  LogPanel(Frame frame, Range bytes, Range values);

  double x(double bytes) const;
  double y(double value) const;
  Svg::Point at(double bytes, double value) const { return {x(bytes), y(value)}; }
  /// Draws a line for each power of the base, and one for each of these sizes, which ascend, with what they are called; a size whose name would touch
  /// the one before has no name. Below the names stands what the sizes are, 34 pixels below the frame.
  void grid(Svg& svg, std::span<const std::size_t> sizes, const std::function<std::string(double)>& name_of) const;

 private:
  Frame frame_;
  double first_ = 0, last_ = 1, low_ = 0, high_ = 1, base_ = 10;
};

/// Returns "5 µs", "20 ms" or "1 s".
std::string short_duration(double us);

}  // namespace unisono::tools
