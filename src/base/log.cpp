#include "base/log.h"

#include <unistd.h>

#include <fmt/format.h>

#include "base/environment.h"

namespace unisono::base {
namespace {

// Static objects of the program may log after what a thread has of its own is destroyed, so it has no destructor.
struct RankText {
  char text[120];
  std::size_t size;
  std::string_view view() const { return {text, size}; }
};
thread_local RankText rank_text{};

constexpr std::string_view names[] = {"debug", "info", "warning", "error", "off"};

constexpr std::chrono::seconds quiet_time(10);
constexpr std::size_t most_sources_remembered = 64;

}  // namespace

LogLevel log_level() {
  static const LogLevel level = [] {
    const auto text = Environment::process().get("UNISONO_LOG");
    for (int i = 0; text && i < 5; ++i) {
      if (*text == names[i]) return static_cast<LogLevel>(i);
    }
    return LogLevel::warning;
  }();
  return level;
}

void log(LogLevel level, std::string_view message) {
  if (level < log_level() || level == LogLevel::off) return;
  try {
    std::string line = "[unisono";
    if (rank_text.size != 0) line.append(" ").append(rank_text.view());
    line += "] ";
    line += names[static_cast<int>(level)];
    line += ": ";
    line += message;
    line += '\n';
    // A single write keeps lines of several ranks on one terminal whole.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {  // NOLINT(bugprone-empty-catch): out of memory: the line is lost, the program goes on
  }
}

void set_log_rank(std::string_view text) { rank_text.size = text.copy(rank_text.text, sizeof rank_text.text); }

void RejectionLog::log(const std::string& source, std::string_view why) {
  const Clock::time_point now = Clock::now();
  if (logged_.size() >= most_sources_remembered) std::erase_if(logged_, [&](const auto& entry) { return now - entry.second > quiet_time; });
  if (logged_.size() >= most_sources_remembered) return;
  const auto [entry, fresh] = logged_.emplace(source, now);
  if (!fresh && now - entry->second < quiet_time) return;
  entry->second = now;
  warn(fmt::format("{} closed a connection from {}: {}", closer_, source, why));
}

}  // namespace unisono::base
