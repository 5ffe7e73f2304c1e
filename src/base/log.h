#pragma once

#include <string_view>

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

}  // namespace unisono::base
