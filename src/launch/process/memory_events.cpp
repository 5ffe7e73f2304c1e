#include "launch/process/memory_events.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include "base/processors.h"

namespace unisono::launcher {
namespace {

std::optional<std::string> text_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Returns the files that may count kills, of version 2 and 1.
std::vector<std::string> event_files(const std::vector<std::string>& folders) {
  std::vector<std::string> files;
  for (const std::string& folder : folders) {
    for (const char* name : {"/memory.events", "/memory.oom_control"}) files.push_back(folder + name);
  }
  return files;
}

}  // namespace

std::optional<std::uint64_t> kills_in(std::string_view text) {
  constexpr std::string_view key = "oom_kill ";
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    std::uint64_t number = 0;
    if (line.starts_with(key) && std::from_chars(line.data() + key.size(), line.data() + line.size(), number).ec == std::errc()) return number;
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return std::nullopt;
}

MemoryEvents::MemoryEvents(const std::string& folder, std::chrono::milliseconds period) : period_(period), next_look_(base::Clock::now() + period) {
  for (const std::string& file : event_files(folder.empty() ? base::ControlGroups().folders("memory") : std::vector{folder})) {
    file_ = file;
    if (const auto now = count()) {
      known_ = latest_ = *now;
      return;
    }
  }
  file_.clear();
}

std::optional<std::uint64_t> MemoryEvents::count() const {
  const auto text = text_of(file_);
  return text ? kills_in(*text) : std::nullopt;
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
