#include "base/rejection_log.h"

#include <fmt/format.h>

#include "base/log.h"

namespace unisono::base {
namespace {

constexpr std::chrono::seconds quiet_time(10);
constexpr std::size_t most_sources_remembered = 64;

}  // namespace

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
