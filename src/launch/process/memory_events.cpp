#include "launch/process/memory_events.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/processors.h"

namespace unisono::launcher {

std::optional<std::uint64_t> kills_in(std::string_view text) {
  std::istringstream fields{std::string(text)};
  std::uint64_t number = 0;
  for (std::string name; fields >> name >> number;) {
    if (name == "oom_kill") return number;
  }
  return std::nullopt;
}

MemoryEvents::MemoryEvents(const std::string& folder, std::chrono::milliseconds period) : period_(period), next_look_(base::Clock::now() + period) {
  for (const std::string& place : folder.empty() ? base::ControlGroups().folders("memory") : std::vector{folder}) {
    for (const char* name : {"/memory.events", "/memory.oom_control"}) {  // of version 2 and 1
      file_ = place + name;
      if (const auto now = count()) {
        known_ = latest_ = *now;
        return;
      }
    }
  }
  file_.clear();
}

std::optional<std::uint64_t> MemoryEvents::count() const {
  std::ifstream file(file_);
  std::string text;
  std::getline(file, text, '\0');  // all of it; an iterator would throw where it cannot be read
  return kills_in(text);
}

void MemoryEvents::wait_for(PollSet& set) const {
  if (!file_.empty()) set.wake_within(std::chrono::ceil<PollSet::Milliseconds>(next_look_ - base::Clock::now()));
}

void MemoryEvents::tick(base::Clock::time_point now) {
  if (file_.empty() || now < next_look_) return;
  next_look_ = now + period_;
  known_ = std::max(known_, latest_);
  latest_ = count().value_or(latest_);
}

bool MemoryEvents::take_kill() {
  if (file_.empty()) return false;
  const auto now = count();
  if (!now || *now <= known_) return false;
  ++known_;
  return true;
}

}  // namespace unisono::launcher
