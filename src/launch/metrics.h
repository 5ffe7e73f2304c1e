#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "launch/job_view.h"

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
  /// The waits that were told last, by attempt and labels. The rate of a rank's clock is measured anew with every look, and a counter that falls by a
  /// nanosecond counts as one that began again.
  std::map<std::string, std::uint64_t> told_waits_;
  int attempt_ = 0;
};

}  // namespace unisono::launcher
