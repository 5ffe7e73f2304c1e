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

/// A connection on which a handshake is under way.
struct HandshakeConnection {
  base::FileDescriptor fd;
  Handshake handshake;
  std::string out = {};
  base::Clock::time_point expires;

  /// Sends what is due, after reading what is there. False: the other side has gone. Throws ProtocolError.
  bool go_on(bool readable);
  bool done() const { return handshake.done() && out.empty(); }
  short events() const { return static_cast<short>(POLLIN | (out.empty() ? 0 : POLLOUT)); }
};

/// Where ranks come in while the connections are made, and strangers do not: at most 64 who have not proved themselves are listened to at a time, for
/// 2 s each, and the ranks do not wait for them.
class Acceptor {
 public:
  /// Throws BackendUnavailable where the address cannot be listened on.
  Acceptor(int rank, const std::string& address, std::vector<int> awaited);
  std::uint16_t port() const;
  /// Before that, whoever comes stays in the system's queue.
  void open(std::string secret) { secret_ = std::move(secret); }

  /// Adds what is to be polled, and moves `next` to when something is due.
  void prepare(std::vector<pollfd>& entries, base::Clock::time_point now, base::Clock::time_point& next) const;
  /// With the entries that it added, after poll. `admit` gets a rank and its connection.
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

/// "10.0.0.7 (eth0)"
std::string with_interface(const std::string& address);

}  // namespace unisono::transport
