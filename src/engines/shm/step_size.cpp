#include "engines/shm/step_size.h"

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono::engines::shm {
namespace {

constexpr const char* step_variable = "UNISONO_STEP_SIZE";
constexpr std::size_t step_on_own_processors = std::size_t{256} << 10;

}  // namespace

std::uint32_t asked_step_kib(const base::Environment& environment) {
  if (!environment.get(step_variable)) return 0;
  constexpr int smallest = 4, largest = largest_slot >> 10;
  const int asked = *environment.get_int(step_variable);
  if (asked < smallest || asked > largest)
    throw InvalidArgument(fmt::format("environment variable {} is not from {} to {} KiB: {}", step_variable, smallest, largest, asked));
  return static_cast<std::uint32_t>(asked);
}

std::size_t step_bytes(std::size_t slot, std::uint32_t asked_kib, bool is_crowded) {
  if (asked_kib != 0) return std::min(slot, std::size_t{asked_kib} << 10);
  return is_crowded ? slot : std::min(slot, step_on_own_processors);
}

}  // namespace unisono::engines::shm
