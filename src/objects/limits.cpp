#include <atomic>
#include <cstdint>
#include <string>

#include "unisono/detail/object_stream.h"
#include "unisono/error.h"

namespace unisono {
namespace {

constexpr std::size_t most_bytes = PTRDIFF_MAX;  // of anything in memory
constexpr std::size_t most_depth = 1024;         // each level takes a few calls on the stack

std::atomic<std::size_t> limit_of_bytes{ObjectLimits{}.bytes};
std::atomic<std::size_t> limit_of_depth{ObjectLimits{}.depth};

}  // namespace

void set_object_limits(const ObjectLimits& limits) {
  if (limits.bytes == 0 || limits.bytes > most_bytes) {
    throw InvalidArgument("objects cannot be limited to " + std::to_string(limits.bytes) + " bytes", {.hint = "1 … 9223372036854775807"});
  }
  if (limits.depth == 0 || limits.depth > most_depth) {
    throw InvalidArgument("objects cannot be limited to a depth of " + std::to_string(limits.depth), {.hint = "1 … 1024"});
  }
  limit_of_bytes.store(limits.bytes);
  limit_of_depth.store(limits.depth);
}
ObjectLimits object_limits() noexcept { return {limit_of_bytes.load(), limit_of_depth.load()}; }

}  // namespace unisono
