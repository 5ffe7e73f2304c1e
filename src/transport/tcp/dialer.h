#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/socket.h"
#include "transport/tcp/acceptor.h"

namespace unisono::transport {

/// A rank as the other ranks come to know it when it connects.
struct Caller {
  int rank = 0;
  std::string address;                            ///< numeric; connections begin there, where the system could choose another one
  base::Secret secret;                            ///< of the job's connections
  std::shared_ptr<const base::TlsContext> tls{};  ///< null: connections are not encrypted
};

/// The attempts to connect with one rank.
class Dialer {
 public:
  using Time = base::Clock::time_point;

  Dialer(int rank, const base::SocketAddress& address) : rank_(rank), address_(address) {}

  int rank() const { return rank_; }
  const base::SocketAddress& address() const { return address_; }
  /// Begins the next attempt where it is due.
  void begin(const Caller& caller, Time now);
  /// Adds its descriptor to those to poll, -1 between two attempts, and moves `next` to the time when something is due.
  void prepare(std::vector<pollfd>& entries, Time& next) const;
  /// Handles the events of that entry. Returns true when the connection is made. Throws ProtocolError where something else answers.
  bool serve(const Caller& caller, short events, Time now);
  Established take() { return connection_->take(); }

  /// Returns true between two attempts.
  bool is_idle() const { return !connecting_ && !connection_; }
  /// Returns true while an attempt is under way that has not taken unusually long to reach the other side.
  bool is_under_way(Time now) const;
  /// Returns true where the rank's system has refused to connect for a while: nobody listens there.
  bool is_refused(Time now) const;
  bool was_refused() const { return refused_since_.has_value(); }
  bool has_reached() const { return reached_; }
  /// Returns why the last attempt failed.
  const std::string& reason() const { return reason_; }

 private:
  void again(Time now, std::string why);
  void not_reached(int error, Time now);

  int rank_;
  base::SocketAddress address_;
  base::FileDescriptor connecting_{};
  std::optional<HandshakeConnection> connection_{};
  Time begun_ = Time::min(), retry_at_ = Time::min();
  std::chrono::milliseconds pause_{10};
  std::optional<Time> refused_since_{};
  bool reached_ = false;
  std::string reason_ = "nothing answers";
};

}  // namespace unisono::transport
