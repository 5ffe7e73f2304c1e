#pragma once

#include <cstdint>
#include <string>

#include "unisono/version.h"

namespace unisono::base {

struct Version {
  std::uint16_t major = 0, minor = 0, patch = 0;
  bool operator==(const Version&) const = default;
};

/// Returns the version of this library.
inline Version library_version() { return {UNISONO_VERSION_MAJOR, UNISONO_VERSION_MINOR, UNISONO_VERSION_PATCH}; }
/// "0.1.0"
inline std::string to_string(const Version& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." + std::to_string(version.patch);
}

}  // namespace unisono::base
