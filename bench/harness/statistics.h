#pragma once

#include <cstdint>
#include <vector>

namespace unisono::bench {

/// Returns the median. This and the functions below take at least one value.
double median(std::vector<double> values);
/// Returns the quantile of nearest rank; `fraction` is from 0 to 1.
double quantile(std::vector<double> values, double fraction);

struct Interval {
  double middle = 0;
  double low = 0;
  double high = 0;
};

/// Returns the median of the values with the 95 % interval of a bootstrap (the median of 1,000 samples drawn with replacement, always the same
/// draws).
Interval median_interval(const std::vector<double>& values);

/// A small generator that gives the same numbers on every rank.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) noexcept : state_(seed) {}
  std::uint64_t next() noexcept;
  /// Returns a number from 0 to limit-1.
  std::size_t below(std::size_t limit) noexcept { return static_cast<std::size_t>(next() % limit); }

 private:
  std::uint64_t state_;
};

}  // namespace unisono::bench
