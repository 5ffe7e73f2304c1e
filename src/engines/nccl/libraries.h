#pragma once

#include <string>

namespace unisono::engines::nccl {

/// Opens libraries: those of the system, or a test's.
class Libraries {
 public:
  virtual ~Libraries() = default;
  /// Returns null where it cannot be opened, and the reason in `why`. With `present_only`, only one that the process has opened already.
  virtual void* open(const std::string& name, bool present_only, std::string& why) = 0;
  virtual void* symbol(void* library, const char* name) = 0;
};
Libraries& system_libraries();

}  // namespace unisono::engines::nccl
