#include "bench/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>

namespace unisono::tools {

using Seconds = std::chrono::duration<double>;

BenchProgress::BenchProgress(int rounds, std::size_t sets, std::optional<Seconds> limit)
    : is_shown_(::isatty(STDERR_FILENO) == 1), rounds_(rounds), sets_(sets), limit_(limit) {}

BenchProgress::~BenchProgress() {
  if (is_shown_) std::cerr << "\r\033[K" << std::flush;
}

void BenchProgress::show(int round, std::size_t number, const std::string& set, double part) {
  constexpr std::chrono::milliseconds between{100};
  const Clock::time_point now = Clock::now();
  if (!is_shown_ || (part > 0 && now - shown_ < between)) return;
  shown_ = now;
  std::string text = fmt::format("\r\033[Kround {} of {}, {}", round + 1, rounds_, set);
  // All rounds take about as long as those so far.
  const Seconds elapsed = now - start_;
  const double done = (round + (static_cast<double>(number) + part) / static_cast<double>(sets_)) / rounds_;
  constexpr Seconds too_early{0.5};
  if (elapsed > too_early && done > 0) {
    Seconds left = elapsed * ((1 - done) / done);
    if (limit_) left = std::clamp(*limit_ - elapsed, Seconds(0), left);
    text += fmt::format(", about {} left", rough_duration(left));
  }
  std::cerr << text + " " << std::flush;  // in one write
}

std::string rough_duration(Seconds time) {
  constexpr double minute = 60, hour = 3600;
  const double seconds = time.count();
  if (seconds < 1.5 * minute) return fmt::format("{:.0f} s", std::ceil(seconds));
  const auto minutes = static_cast<long>(std::ceil(seconds / minute));
  return seconds < hour ? fmt::format("{} min", minutes) : fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

}  // namespace unisono::tools
