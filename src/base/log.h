#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/deadline.h"

namespace unisono::base {

enum class LogLevel { debug, info, warning, error, off };

/// Returns the level that UNISONO_LOG names (debug, info, warning, error, off); warning where it is unset.
LogLevel log_level();
/// Writes a line to standard error: "[unisono rank 1] warning: …". Never throws, thread-safe.
void log(LogLevel level, std::string_view message);
/// Sets the text that names this thread's rank in its lines ("rank 1"); empty: none.
void set_log_rank(std::string_view text);

/// For decisions made when a job or a group begins, a line each. It is not for frequent calls, since the text is made even where it is not written.
inline void debug(std::string_view message) { log(LogLevel::debug, message); }
inline void warn(std::string_view message) { log(LogLevel::warning, message); }
inline void info(std::string_view message) { log(LogLevel::info, message); }

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
