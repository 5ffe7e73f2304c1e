#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/socket.h"
#include "base/tls_library.h"
#include "transport/tcp/handshake.h"

namespace unisono::transport {

inline constexpr std::int64_t longest_poll_ms = 1000;  ///< of a wait while connections are made

/// A connection on which both sides have proved themselves.
struct Established {
  base::FileDescriptor fd;
  std::string already = {};                       ///< the bytes that the peer has sent since
  std::unique_ptr<base::TlsConnection> tls = {};  ///< null: it is not encrypted
  FrameKeys keys = {};
};

/// A connection during its handshake: that of TLS, where it is encrypted, and then ours.
class HandshakeConnection {
 public:
  static constexpr auto time_to_be_accepted = std::chrono::seconds(60);

  /// `tls`: what it is encrypted with; null: nothing.
  HandshakeConnection(base::FileDescriptor fd, Handshake handshake, const base::TlsContext* tls, base::TlsSide side, base::Clock::time_point expires);

  /// Reads, and sends the handshake's output. Returns false where the other side has gone, or was not wanted. Throws ProtocolError.
  bool go_on(bool readable);
  bool done() const { return handshake_.done() && !is_blocked(); }
  bool is_unwanted() const { return handshake_.is_unwanted(); }
  short events() const { return static_cast<short>(POLLIN | (is_blocked() ? POLLOUT : 0)); }
  int fd() const { return fd_.get(); }
  int from() const { return handshake_.from(); }
  /// A rank that has proved itself waits longer. The other side accepts it or closes the connection as soon as it runs; if this side left just after
  /// it was accepted, that would look like its death.
  base::Clock::time_point expires() const { return handshake_.awaits_acceptance() ? expires_ + time_to_be_accepted : expires_; }
  /// Hands over the connection of a handshake that is done.
  Established take();

 private:
  bool is_blocked() const { return !out_.empty() || (tls_ && tls_->has_unsent()); }
  bool encrypt();
  bool receive_some();

  base::FileDescriptor fd_;
  Handshake handshake_;
  std::unique_ptr<base::TlsConnection> tls_;
  bool is_encrypted_ = false;  ///< the handshake of TLS is done
  std::string out_;
  base::Clock::time_point expires_;
};

/// Accepts the connections of ranks and keeps strangers from delaying them: at most 64 connections are in their handshake at a time, for 2 s each.
class Acceptor {
 public:
  /// Throws BackendUnavailable where it cannot listen on the address.
  Acceptor(int rank, const std::string& address, std::vector<int> awaited);
  std::uint16_t port() const;
  /// Begins to accept. Earlier connections stay in the system's queue until then.
  void open(base::Secret secret, std::shared_ptr<const base::TlsContext> tls) {
    secret_ = std::move(secret);
    tls_ = std::move(tls);
  }

  /// Admits these ranks from now on, those alone for which `wants` returns true when they have proved themselves.
  void admit(std::vector<int> ranks, std::function<bool(int rank)> wants) {
    awaited_ = std::move(ranks);
    wants_ = std::move(wants);
  }

  /// Adds the descriptors to poll, and moves `next` to the time when something is due.
  void prepare(std::vector<pollfd>& entries, base::Clock::time_point now, base::Clock::time_point& next) const;
  /// Handles the entries that `prepare` has added, after poll. `admit` gets a rank and its connection.
  using Admit = std::function<void(int rank, Established connection)>;
  void serve(std::span<const pollfd> entries, const Admit& admit);

 private:
  using Time = base::Clock::time_point;
  struct Unauthenticated {
    std::optional<HandshakeConnection> connection;  ///< none: it was admitted or rejected
    std::string source;
    Time since;
  };
  void accept();
  bool make_room(Time now);
  void serve(Unauthenticated& candidate, short events, const Admit& admit);

  const int rank_;
  std::vector<int> awaited_;
  std::function<bool(int rank)> wants_{};
  base::FileDescriptor listener_;
  base::Secret secret_;
  std::shared_ptr<const base::TlsContext> tls_;  ///< null: connections are not encrypted
  Time listen_again_ = Time::min();
  std::list<Unauthenticated> unauthenticated_;  ///< the oldest first
  base::RejectionLog rejections_;
};

/// Returns the address with its interface: "10.0.0.7 (eth0)".
std::string with_interface(const std::string& address);

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
