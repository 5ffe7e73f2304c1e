#pragma once

#include <string>

#include "base/deadline.h"
#include "base/file_descriptor.h"

namespace unisono::store {

/// Wakes a reader when a file changes. inotify reports changes made on this host. On a shared file system, or where the system has no watches left,
/// the reader looks again after a bounded pause. A watch is made before the first look, so that no change is missed in between.
class FileWatch {
 public:
  explicit FileWatch(const std::string& path);
  /// Returns after a change, after the pause, or at the deadline.
  void wait(const base::Deadline& deadline);

 private:
  base::FileDescriptor inotify_;
  std::chrono::milliseconds pause_{1};
  std::chrono::milliseconds longest_{};
};

}  // namespace unisono::store
