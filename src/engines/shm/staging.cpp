#include "engines/shm/staging.h"

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono::engines::shm {

std::atomic<bool> Staging::past_caches{false};

void Staging::set_past_caches(bool found) noexcept { past_caches.store(found, std::memory_order_relaxed); }

std::optional<bool> asked_staging(const base::Environment& environment) {
  constexpr const char* variable = "UNISONO_STAGING";
  const auto text = environment.get(variable);
  if (!text) return std::nullopt;
  if (*text == "streamed") return true;
  if (*text == "cached") return false;
  throw InvalidArgument(fmt::format("environment variable {} is not cached or streamed: {}", variable, *text));
}

}  // namespace unisono::engines::shm
