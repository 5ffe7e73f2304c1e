#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::launcher {

/// How often the kernel's out-of-memory killer has taken a process of a cgroup. A rank that it takes ends by SIGKILL, like one that somebody has
/// killed by hand; only this counter tells the two apart.
class MemoryEvents {
 public:
  /// Counts from now on. `folder` holds the cgroup's files (memory.events of version 2, or memory.oom_control of version 1); empty: that of this
  /// process, in which its children begin.
  explicit MemoryEvents(const std::string& folder = {});

  /// True once for each process that the kernel has killed since the beginning; false too where no file tells.
  bool take_kill();

 private:
  std::optional<std::uint64_t> count() const;

  std::string file_;
  std::uint64_t known_ = 0;
};

/// The number behind `oom_kill` in the text of such a file.
std::optional<std::uint64_t> kills_in(std::string_view text);
/// Where a process with this /proc/self/cgroup finds the file, in the order of preference: of its own cgroup first, then of the one at the mount's
/// root, which is its own in a container that does not show it the rest.
std::vector<std::string> memory_event_files(std::string_view own_cgroups, const std::string& mount = "/sys/fs/cgroup");

}  // namespace unisono::launcher
