#pragma once

#include <cstdint>
#include <string>

namespace unisono::base {

struct Version {
  std::uint16_t major = 0, minor = 0, patch = 0;
  bool operator==(const Version&) const = default;
};

/// Returns the version of this library.
Version library_version();
/// "0.1.0"
std::string to_string(const Version& version);

}  // namespace unisono::base
