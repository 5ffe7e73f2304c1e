#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/deadline.h"

namespace unisono::base {

/// The warnings about rejected connections: a line for each source in a while, so that a scanner does not fill the job's log.
class RejectionLog {
 public:
  /// `closer`: who closes the connections, "the store".
  explicit RejectionLog(std::string closer) : closer_(std::move(closer)) {}
  void log(const std::string& source, std::string_view why);

 private:
  std::string closer_;
  std::map<std::string, Clock::time_point> logged_{};  ///< by source
};

}  // namespace unisono::base
