#include "base/caches.h"

#include <unistd.h>

#include <algorithm>

namespace unisono::base {

// The library asks the processor each time, which in a virtual machine is a matter of microseconds.

std::size_t second_level_cache() {
  constexpr long usual = 1L << 20;
  static const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return static_cast<std::size_t>(bytes > 0 ? bytes : usual);
}

std::size_t third_level_cache() {
  static const long bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return static_cast<std::size_t>(std::max(bytes, 0L));
}

}  // namespace unisono::base
