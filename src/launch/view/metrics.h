#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "launch/view/job_view.h"

namespace unisono::launcher {

/// The media type of what Metrics writes.
inline constexpr std::string_view metrics_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Writes what the ranks of a host have counted, as OpenMetrics text. One thread uses it.
class Metrics {
 public:
  explicit Metrics(std::function<JobSeen()> look) : look_(std::move(look)) {}
  std::string text();

 private:
  std::function<JobSeen()> look_;
  /// The waits of a rank that were told last. The rate of its clock is measured anew with every look, and a counter that falls by a nanosecond counts
  /// as one that began again.
  struct ToldWaits {
    std::uint64_t began = 0;  ///< when the record of its process began; another process in its place has counted nothing yet
    std::map<std::string, std::uint64_t> by_labels;
  };
  std::map<int, ToldWaits> told_waits_;  ///< by rank
};

}  // namespace unisono::launcher
