#pragma once

#include <poll.h>

#include <functional>
#include <list>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/socket.h"
#include "transport/tcp/handshake.h"

namespace unisono::transport {

/// A connection during its handshake.
struct HandshakeConnection {
  base::FileDescriptor fd;
  Handshake handshake;
  std::string out = {};
  base::Clock::time_point expires;

  /// Reads, and sends the handshake's output. Returns false where the other side has gone. Throws ProtocolError.
  bool go_on(bool readable);
  bool done() const { return handshake.done() && out.empty(); }
  short events() const { return static_cast<short>(POLLIN | (out.empty() ? 0 : POLLOUT)); }
};

/// Accepts the connections of ranks and keeps strangers from delaying them: at most 64 connections are in their handshake at a time, for 2 s each.
class Acceptor {
 public:
  /// Throws BackendUnavailable where it cannot listen on the address.
  Acceptor(int rank, const std::string& address, std::vector<int> awaited);
  std::uint16_t port() const;
  /// Begins to accept. Earlier connections stay in the system's queue until then.
  void open(std::string secret) { secret_ = std::move(secret); }

  /// Adds the descriptors to poll, and moves `next` to the time when something is due.
  void prepare(std::vector<pollfd>& entries, base::Clock::time_point now, base::Clock::time_point& next) const;
  /// Handles the entries that `prepare` has added, after poll. `admit` gets a rank and its connection.
  using Admit = std::function<void(int rank, base::FileDescriptor fd)>;
  void serve(std::span<const pollfd> entries, const Admit& admit);

 private:
  using Time = base::Clock::time_point;
  struct Unauthenticated {
    HandshakeConnection connection;
    std::string source;
    Time since;
  };
  void accept();
  bool make_room(Time now);
  void serve(Unauthenticated& candidate, short events, const Admit& admit);
  void log_rejected(const std::string& source, std::string_view what);

  const int rank_;
  const std::vector<int> awaited_;
  base::FileDescriptor listener_;
  std::string secret_;
  Time listen_again_ = Time::min();
  std::list<Unauthenticated> unauthenticated_;  ///< the oldest first
  std::map<std::string, Time> rejected_;
};

/// Returns the address with its interface: "10.0.0.7 (eth0)".
std::string with_interface(const std::string& address);

}  // namespace unisono::transport
