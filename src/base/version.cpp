#include "base/version.h"

#include "unisono/version.h"

namespace unisono::base {

Version library_version() { return {UNISONO_VERSION_MAJOR, UNISONO_VERSION_MINOR, UNISONO_VERSION_PATCH}; }

std::string to_string(const Version& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." + std::to_string(version.patch);
}

}  // namespace unisono::base
