#pragma once

#include <string>

#include "base/deadline.h"
#include "base/file_descriptor.h"

namespace unisono::store {

/// Wakes a reader when a file changes. The kernel tells (inotify) where the change is made on this host; on a shared file system, or where the
/// system has no watches left, it looks again after a bounded pause. Make it before the first look, so that no change falls between.
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
