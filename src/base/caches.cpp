#include "base/caches.h"

#include <unistd.h>

namespace unisono::base {

std::size_t second_level_cache() {
  constexpr std::size_t usual = std::size_t{1} << 20;
  const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : usual;
}

std::size_t third_level_cache() {
  const long bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

}  // namespace unisono::base
