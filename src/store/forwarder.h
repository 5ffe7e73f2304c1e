#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace unisono::store {

/// Answers the requests of a server's clients in its place (relay.h).
class Forwarder {
 public:
  struct Owner {
    /// Hands an answer, a frame, to a client of the server. Any thread may call it.
    std::function<void(std::uint64_t session, std::string frame)> answer{};
    /// Tells that no request is answered any more.
    std::function<void()> lose{};
  };
  Forwarder() = default;
  /// The owner's functions are not called afterwards.
  virtual ~Forwarder() = default;
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  /// Takes over a request. Throws InvalidArgument where it is malformed, or of a kind that counts for a whole connection.
  virtual void forward(std::uint64_t session, std::string_view frame) = 0;
  /// Forgets what a client waits for, which has ended.
  virtual void forget(std::uint64_t session) = 0;
};

}  // namespace unisono::store
