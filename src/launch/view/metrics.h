#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "launch/view/job_view.h"

namespace unisono::launcher {

/// The formats of the page, which have the same samples.
enum class MetricsFormat {
  text,          ///< Prometheus's own, version 0.0.4, which every reader of metrics knows
  open_metrics,  ///< OpenMetrics 1.0
};
/// Returns the media type of a format.
std::string_view media_type(MetricsFormat format);
/// Chooses the format by the field Accept of a request, empty where it has none: OpenMetrics where it is named, and text/plain is not named with a
/// greater weight; else text.
MetricsFormat metrics_format(std::string_view accept);

/// Writes what the ranks of a host have counted. One thread uses it.
class Metrics {
 public:
  explicit Metrics(std::function<JobSeen()> look) : look_(std::move(look)) {}
  std::string text(MetricsFormat format);

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
