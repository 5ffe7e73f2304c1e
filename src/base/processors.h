#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::base {

/// The control groups of this process, of version 1 and 2. Every question about them is answered here.
class ControlGroups {
 public:
  ControlGroups();  ///< those of this process
  /// `own`: the text of a /proc/<pid>/cgroup. `mount`: the folder of the groups.
  ControlGroups(std::string own, std::string mount) : own_(std::move(own)), mount_(std::move(mount)) {}

  /// Returns where files of a controller ("cpu", "memory") may be: in the folder of the own group, then in those above it up to the mount. Limits
  /// hold in each of them. In a container that hides the rest the mount's folder is the own group.
  std::vector<std::string> folders(std::string_view controller) const;

  /// Returns how many processors the groups may use at a time; empty: as many as there are.
  std::optional<double> processors() const;
  /// Returns how many bytes of memory the groups may use; empty: there is no limit.
  std::optional<std::uint64_t> memory() const;

 private:
  std::string own_, mount_;
};

/// The processors that a process may use, as numbers that other processes can read.
struct Processors {
  std::array<std::uint64_t, 16> mask{};         ///< a bit for each, by the system's number; of the affinity mask
  int quota = std::numeric_limits<int>::max();  ///< so many of them at a time, by the control group

  void add(const Processors& others);
  int count() const;  ///< at least 1
};

/// Returns those of the calling thread.
Processors own_processors();
/// Returns those of the first thread of a process of this host; none where there is no such process.
Processors processors_of(int pid);

/// Returns how many processors this process may use: the affinity mask and the control group's quota, at least 1.
int allowed_processors();

/// Returns the bytes of a core's second-level cache, or a usual size where the system does not say.
std::size_t second_level_cache();

/// Returns the bytes of the third-level cache, or 0 where the system does not say. Virtual machines may report one that they share with others, or a
/// wrong size, so nothing may depend on it alone.
std::size_t third_level_cache();

}  // namespace unisono::base
