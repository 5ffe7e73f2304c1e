#pragma once

#include <string_view>

namespace unisono::base {

enum class LogLevel { debug, info, warning, error, off };

/// From UNISONO_LOG (debug, info, warning, error, off); warning where unset.
LogLevel log_level();
/// One line on standard error: "[unisono rank 1] warning: …". Never throws, thread-safe.
void log(LogLevel level, std::string_view message);
/// What stands in front of the line of this thread's rank ("rank 1"); empty: nothing.
void set_log_rank(std::string_view text);

/// What the library decides when a job or a group begins: one line for each decision. Only there, for the text is made in any case.
inline void debug(std::string_view message) { log(LogLevel::debug, message); }
inline void warn(std::string_view message) { log(LogLevel::warning, message); }
inline void info(std::string_view message) { log(LogLevel::info, message); }

}  // namespace unisono::base
