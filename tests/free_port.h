#pragma once

#include <cstdint>
#include <random>
#include <stdexcept>

#include "ground/socket.h"

namespace unisono {

/// A port of the loopback interface that nobody listens on now. Not one of those that the system gives to whoever binds to port 0: it might give it
/// away before the test uses it. Tests that choose ports this way share one of ctest's locks (RESOURCE_LOCK).
inline std::uint16_t free_port() {
  static std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<int> port(10'000, 14'999);
  for (int tries = 0; tries < 1000; ++tries) {
    const auto candidate = static_cast<std::uint16_t>(port(random));
    if (ground::try_listen(ground::resolve("127.0.0.1", candidate).front()).fd) return candidate;
  }
  throw std::runtime_error("no free port");
}

}  // namespace unisono
