#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/socket.h"

namespace unisono {

/// Whether this process has the port to itself now, among the tests. It keeps an abstract socket with the port's number until it ends.
inline bool reserve_port(std::uint16_t port) {
  base::FileDescriptor name(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const std::string text = "port-of-a-test-" + std::to_string(port);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, text.data(), text.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  if (::bind(name.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return false;
  static std::vector<base::FileDescriptor> kept;
  kept.push_back(std::move(name));
  return true;
}

/// A port of the loopback interface that nobody listens on now and that no other test is given meanwhile. It is not one of those that the system
/// gives to whoever binds to port 0: the system might give it away before the test uses it.
inline std::uint16_t free_port() {
  static std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<int> port(10'000, 14'999);
  for (int tries = 0; tries < 1000; ++tries) {
    const auto candidate = static_cast<std::uint16_t>(port(random));
    if (reserve_port(candidate) && base::try_listen(base::resolve("127.0.0.1", candidate).front()).fd) return candidate;
  }
  throw std::runtime_error("no free port");
}

}  // namespace unisono
