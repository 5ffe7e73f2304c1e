#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace unisono::tools {

/// A line on standard error, where that is a terminal, with how far a measurement is and about how long it still takes. The destructor erases it.
class BenchProgress {
 public:
  /// `limit`: no further round begins after this time.
  BenchProgress(int rounds, std::size_t sets, std::optional<std::chrono::duration<double>> limit);
  ~BenchProgress();
  BenchProgress(const BenchProgress&) = delete;
  BenchProgress& operator=(const BenchProgress&) = delete;

  /// Tells that the set with this number has done `part`, from 0 to 1, of a round.
  void show(int round, std::size_t number, const std::string& set, double part);

 private:
  using Clock = std::chrono::steady_clock;
  const bool is_shown_;
  const int rounds_;
  const std::size_t sets_;
  const std::optional<std::chrono::duration<double>> limit_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = {};
};

/// Returns "5 s", "12 min" or "3 h 20 min".
std::string rough_duration(std::chrono::duration<double> time);

}  // namespace unisono::tools
