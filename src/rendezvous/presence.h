#pragma once

#include <cstdint>
#include <string>

#include "base/deadline.h"
#include "base/file_descriptor.h"

namespace unisono::rendezvous {

/// This process's sign of life in a rendezvous file: a lock on one byte far behind its content, which goes when the process ends, however it ends.
/// Others see it through any file system whose locks work. The last one to go removes the file.
class Presence {
 public:
  /// Creates the file where there is none. While this object lives, nobody else's `Presence` removes it.
  Presence(std::string path, const base::Deadline& deadline);
  ~Presence();
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

  std::int64_t byte() const { return byte_; }
  bool is_alive(std::int64_t byte) const;

 private:
  bool lock_content(const base::Deadline& deadline) const;

  std::string path_;
  base::FileDescriptor fd_;
  std::int64_t byte_ = 0;
  int pid_;
};

}  // namespace unisono::rendezvous
