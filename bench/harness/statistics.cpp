#include "harness/statistics.h"

#include <algorithm>
#include <cmath>

namespace unisono::bench {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double quantile(std::vector<double> values, double fraction) {
  std::ranges::sort(values);
  const double rank = std::ceil(fraction * static_cast<double>(values.size()));
  const auto index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  return values[std::min(index, values.size() - 1)];
}

Interval median_interval(const std::vector<double>& values) {
  constexpr int resamples = 1000;
  Draws draws(0x5eed);
  std::vector<double> medians(resamples);
  std::vector<double> sample(values.size());
  for (double& middle : medians) {
    for (double& value : sample) value = values[draws.below(values.size())];
    middle = median(sample);
  }
  return {.middle = median(values), .low = quantile(medians, 0.025), .high = quantile(medians, 0.975)};
}

std::uint64_t Draws::next() noexcept {
  // A Weyl sequence, followed by a mixer that spreads every bit (SplitMix64).
  state_ += 0x9e3779b97f4a7c15U;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

}  // namespace unisono::bench
