#pragma once

#include <cstdint>
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

}  // namespace unisono::base
