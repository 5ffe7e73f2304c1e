#include "launch/memory_events.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace unisono::launcher {
namespace {

std::optional<std::string> text_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Finds a name in a list, such as "memory" in "cpu,memory".
bool names(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const auto comma = controllers.find(',');
    if (controllers.substr(0, comma) == wanted) return true;
    controllers.remove_prefix(comma == std::string_view::npos ? controllers.size() : comma + 1);
  }
  return false;
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

// Lines are "4:memory:/path" in version 1, with a number for each hierarchy, and "0::/path" in version 2.
std::vector<std::string> memory_event_files(std::string_view own_cgroups, const std::string& mount) {
  std::vector<std::string> files;
  while (!own_cgroups.empty()) {
    const auto end = own_cgroups.find('\n');
    const std::string_view line = own_cgroups.substr(0, end);
    const auto first = line.find(':');
    const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second != std::string_view::npos) {
      const std::string_view controllers = line.substr(first + 1, second - first - 1);
      const std::string path(line.substr(second + 1));
      if (controllers.empty()) {
        for (const std::string& root : {mount, mount + "/unified"}) {
          files.push_back(root + path + "/memory.events");
          files.push_back(root + "/memory.events");
        }
      } else if (names(controllers, "memory")) {
        files.push_back(mount + "/memory" + path + "/memory.oom_control");
        files.push_back(mount + "/memory/memory.oom_control");
      }
    }
    own_cgroups.remove_prefix(end == std::string_view::npos ? own_cgroups.size() : end + 1);
  }
  return files;
}

MemoryEvents::MemoryEvents(const std::string& folder, std::chrono::milliseconds period) : period_(period), next_look_(base::Clock::now() + period) {
  const std::vector<std::string> files = folder.empty() ? memory_event_files(text_of("/proc/self/cgroup").value_or(""))
                                                        : std::vector{folder + "/memory.events", folder + "/memory.oom_control"};
  for (const std::string& file : files) {
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
