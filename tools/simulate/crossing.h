#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "simulate/engine.h"

namespace unisono::simulate {

/// The times of an operation's algorithms for many sizes.
struct Crossing {
  /// Stands for a time that was not simulated: by its formula the algorithm takes many times as long as another, or it has too many messages.
  static constexpr double none = std::numeric_limits<double>::infinity();

  struct Row {
    std::size_t bytes = 0;
    std::vector<double> us = {};  ///< by algorithm
    std::size_t fastest = 0;
    std::string_view selected = {};  ///< by the library, among those of the table
    double selected_us = 0;
  };
  /// A change of the fastest algorithm.
  struct Point {
    std::size_t bytes = 0;
    std::string_view below, above;
  };
  std::vector<std::string_view> algorithms = {};
  std::vector<Row> rows = {};

  /// Returns where the fastest algorithm changes; between two sizes the times are taken to follow powers of the size.
  std::vector<Point> points() const;
};

/// Simulates all algorithms that can carry out the call, for sizes from 8 bytes to so many. The options' progress is that of the whole.
Crossing cross(Call call, const SimulationOptions& options, std::size_t most_bytes);

/// Returns a picture of the times; both axes are logarithmic.
std::string svg_of(const Crossing& crossing, const std::string& title);

}  // namespace unisono::simulate
