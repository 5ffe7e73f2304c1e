#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"

namespace unisono::launcher {

/// Where the system describes the processors of this host.
inline constexpr const char* processors_folder = "/sys/devices/system/cpu";

/// A core of this host. Its processors are its hardware threads, siblings of each other.
struct Core {
  int package = 0;                   ///< the socket
  int number = 0;                    ///< the lowest of its processors, also if this process may not use that one: all processes call the core so
  std::vector<int> processors = {};  ///< those that this process may use, ascending
};

/// Returns the cores of these processors, which are ascending, in the order of the sockets. A processor of which the system says nothing is a core.
std::vector<Core> cores_of(const std::vector<int>& processors, const std::string& folder = processors_folder);

/// The cores of a job, as other jobs on this host see them. Each is a lock (flock) on the core's folder in /sys: it needs no file of ours, holds for
/// all users, and the kernel drops it with the process, however that ends. Processes in another network namespace with a /sys of its own do not see
/// it.
class HeldCores {
 public:
  HeldCores() = default;
  explicit HeldCores(std::string folder) : folder_(std::move(folder)) {}
  /// Returns false if another job holds the core, or if the system lets it not be held.
  bool take(const Core& core);
  /// Returns the errno with which the system has refused to hold a core; 0: it has refused none.
  int error() const { return error_; }

 private:
  std::string folder_ = processors_folder;
  std::vector<base::FileDescriptor> locks_;
  int error_ = 0;
};

}  // namespace unisono::launcher
