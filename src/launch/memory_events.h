#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::launcher {

/// Counts the kills by the kernel's out-of-memory killer in a cgroup. A rank killed by it ends by SIGKILL, like one killed by hand; only this counter
/// tells the two apart.
class MemoryEvents {
 public:
  /// Counts from now on. `folder` holds the cgroup's files (memory.events of version 2, or memory.oom_control of version 1). An empty name stands for
  /// the folder of this process's cgroup, in which its children begin.
  explicit MemoryEvents(const std::string& folder = {});

  /// Returns true once for each kill since the beginning; false also where no such file exists.
  bool take_kill();

 private:
  std::optional<std::uint64_t> count() const;

  std::string file_;
  std::uint64_t known_ = 0;
};

/// Returns the number after `oom_kill` in the text of such a file.
std::optional<std::uint64_t> kills_in(std::string_view text);
/// Returns where a process with this /proc/self/cgroup may find the file, in order of preference: in its own cgroup first, then at the root of the
/// mount, which is its own cgroup in a container that hides the rest.
std::vector<std::string> memory_event_files(std::string_view own_cgroups, const std::string& mount = "/sys/fs/cgroup");

}  // namespace unisono::launcher
