#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

#include "base/file_descriptor.h"
#include "harness/arena.h"

namespace unisono::bench {

/// Memory for an arena, found by a path as the drivers find it.
class ArenaFile {
 public:
  explicit ArenaFile(int ranks) : fd_(::memfd_create("test", MFD_CLOEXEC)) {
    if (::ftruncate(fd_.get(), static_cast<off_t>(Arena::bytes(ranks))) != 0) throw std::runtime_error("no memory");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  base::FileDescriptor fd_;
};

}  // namespace unisono::bench
