#include "recorder/call_text.h"

#include <fmt/format.h>

namespace unisono::recorder {

std::string duration_text(std::uint64_t ns) {
  const double seconds = static_cast<double>(ns) / 1e9;
  if (seconds < 1e-3) return fmt::format("{:.0f} µs", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::uint64_t>(seconds);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

std::string call_text(const CallSeen& call) {
  return call.sequence == 0 ? fmt::format("{} of {}", call.operation, call.group)
                            : fmt::format("{} #{} of {}", call.operation, call.sequence, call.group);
}

std::string placed_text(const CallSeen& call) { return call_text(call) + (call.place.empty() ? "" : fmt::format(" ({})", call.place)); }

}  // namespace unisono::recorder
