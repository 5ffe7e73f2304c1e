#include "transport/tcp/connecting.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "base/error_text.h"
#include "base/interfaces.h"
#include "base/tls.h"
#include "unisono/error.h"

namespace unisono::transport {
namespace {

using base::Clock;
using base::FileDescriptor;
using namespace std::chrono_literals;

constexpr std::size_t most_unauthenticated = 64;  ///< connections that have not authenticated
constexpr auto time_to_authenticate = 2s;
constexpr auto grace_of_unauthenticated = 50ms;  ///< a handshake takes microseconds, so an older connection makes room
constexpr auto pause_without_means = 100ms;

constexpr auto patience_with_ranks = 10s;      ///< for one attempt, once connected: the other side may be busy with strangers
constexpr auto patience_with_refusal = 2s;     ///< ranks listen by then, so a refusal is no matter of time
constexpr auto patience_with_connecting = 1s;  ///< beyond it the other side is taken to be cut off from this one
constexpr std::chrono::milliseconds longest_pause = 500ms;

}  // namespace

std::string with_interface(const std::string& address) {
  try {
    for (const auto& each : base::interface_addresses()) {
      if (each.address.host() == address) return fmt::format("{} ({})", address, each.interface);
    }
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the address alone suffices
  }
  return address;
}

HandshakeConnection::HandshakeConnection(base::FileDescriptor fd, Handshake handshake, const base::TlsContext* tls, base::TlsSide side,
                                         base::Clock::time_point expires)
    : fd_(std::move(fd)), handshake_(std::move(handshake)), is_encrypted_(tls == nullptr), expires_(expires) {
  if (tls == nullptr) return;
  std::string why;
  tls_ = tls->open(fd_.get(), side, why);
  if (!tls_) throw Error(fmt::format("a connection cannot be encrypted: {}", why));
}

// Goes on with the handshake of TLS. Returns false where the other side has gone.
bool HandshakeConnection::encrypt() {
  switch (tls_->shake_hands()) {
    case base::TlsConnection::Progress::waits: return true;
    case base::TlsConnection::Progress::lost: return false;
    case base::TlsConnection::Progress::failed: throw ProtocolError(tls_->error());
    case base::TlsConnection::Progress::done: break;
  }
  is_encrypted_ = true;
  handshake_.bind(tls_->binding());
  return true;
}

bool HandshakeConnection::receive_some() {
  std::array<char, 512> chunk;
  const ssize_t n = base::receive(fd_.get(), tls_.get(), chunk.data(), chunk.size());
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (n < 0 && tls_ && !tls_->error().empty()) throw ProtocolError(tls_->error());
  if (n <= 0) return false;
  if (!tls_ && chunk.front() == base::tls_begins && handshake_.has_received_nothing()) {
    static_cast<void>(base::send(fd_.get(), nullptr, base::no_tls_here.data(), base::no_tls_here.size()));
    throw ProtocolError("it encrypts its connections, and this process does not: UNISONO_TLS must be the same on all ranks");
  }
  handshake_.receive({chunk.data(), static_cast<std::size_t>(n)});
  return true;
}

bool HandshakeConnection::go_on(bool readable) {
  if (!is_encrypted_) {
    if (!encrypt()) return false;
    if (!is_encrypted_) return true;
  }
  if (readable && !receive_some()) return false;
  while (tls_ && tls_->has_unread() && !handshake_.done() && !is_unwanted()) {
    if (!receive_some()) return false;
  }
  if (is_unwanted()) return false;
  out_ += handshake_.take_output();
  if (tls_ && !tls_->flush()) return false;
  if (out_.empty()) return true;
  const ssize_t n = base::send(fd_.get(), tls_.get(), out_.data(), out_.size());
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  out_.erase(0, static_cast<std::size_t>(n));
  return true;
}

Established HandshakeConnection::take() { return {std::move(fd_), handshake_.take_rest(), std::move(tls_), handshake_.keys()}; }

Acceptor::Acceptor(int rank, const std::string& address, std::vector<int> awaited)
    : rank_(rank), awaited_(std::move(awaited)), rejections_(fmt::format("rank {}", rank)) {
  base::Opened opened = base::try_listen(base::resolve(address, 0).front());
  if (!opened.fd) {
    throw BackendUnavailable(fmt::format("rank {} cannot listen on {}: {}", rank_, with_interface(address), base::error_text(opened.error)),
                             {.hint = "UNISONO_INTERFACE names the interface"});
  }
  listener_ = std::move(opened.fd);
}

std::uint16_t Acceptor::port() const { return base::local_address(listener_.get()).port(); }

void Acceptor::prepare(std::vector<pollfd>& entries, Time now, Time& next) const {
  const bool listening = listen_again_ <= now;
  entries.push_back({listening ? listener_.get() : -1, POLLIN, 0});
  if (!listening) next = std::min(next, listen_again_);
  for (const Unauthenticated& each : unauthenticated_) {
    entries.push_back({each.connection->fd(), each.connection->events(), 0});
    next = std::min(next, each.connection->expires());
  }
}

void Acceptor::serve(std::span<const pollfd> entries, const Admit& admit) {
  std::size_t i = 1;
  for (Unauthenticated& each : unauthenticated_) {
    if (const short events = entries[i++].revents; events != 0) serve(each, events, admit);
  }
  const Time now = Clock::now();
  for (Unauthenticated& each : unauthenticated_) {
    if (!each.connection || each.connection->expires() > now) continue;
    rejections_.log(each.source, "it did not authenticate in time");
    each.connection.reset();
  }
  std::erase_if(unauthenticated_, [](const Unauthenticated& each) { return !each.connection; });
  if (entries[0].revents != 0) accept();
}

// Closes the oldest connection that has not authenticated, so that strangers cannot keep the ranks out. While it is young it may be one of many ranks
// that connect at once, and the listener pauses instead.
bool Acceptor::make_room(Time now) {
  if (unauthenticated_.size() < most_unauthenticated) return true;
  Unauthenticated& oldest = unauthenticated_.front();
  if (now - oldest.since < grace_of_unauthenticated) {
    listen_again_ = oldest.since + grace_of_unauthenticated;
    return false;
  }
  rejections_.log(oldest.source, "it did not authenticate, and others were waiting");
  unauthenticated_.pop_front();
  return true;
}

void Acceptor::accept() {
  for (;;) {
    const Time now = Clock::now();
    if (!make_room(now)) return;
    FileDescriptor fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN) {  // descriptors or memory may be available later
        base::warn(fmt::format("a connection could not be accepted: {}", base::error_text(errno)));
        listen_again_ = now + pause_without_means;
      }
      return;
    }
    fd.keep_from_children();
    base::set_no_delay(fd.get());
    std::string source;
    try {
      source = base::peer_address(fd.get()).host();
    } catch (const Error&) {  // the other side has closed it already
      continue;
    }
    Handshake handshake = Handshake::accepting(secret_, rank_, awaited_);
    handshake.ask(wants_);
    unauthenticated_.push_back(
        {HandshakeConnection(std::move(fd), std::move(handshake), tls_.get(), base::TlsSide::accepting, now + time_to_authenticate),
         std::move(source), now});
  }
}

void Acceptor::serve(Unauthenticated& candidate, short events, const Admit& admit) {
  HandshakeConnection& connection = *candidate.connection;
  try {
    if (!connection.go_on((events & ~POLLOUT) != 0)) {
      if (!connection.is_unwanted()) rejections_.log(candidate.source, "it went away before it had authenticated");
      candidate.connection.reset();
    } else if (connection.done()) {
      admit(connection.from(), connection.take());
      candidate.connection.reset();
    }
  } catch (const ProtocolError& error) {
    rejections_.log(candidate.source, error.message());
    candidate.connection.reset();
  }
}

void Dialer::again(Time now, std::string why) {
  connecting_.reset();
  connection_.reset();
  reason_ = std::move(why);
  retry_at_ = now + pause_;
  pause_ = std::min(2 * pause_, longest_pause);
}

void Dialer::not_reached(int error, Time now) {
  again(now, base::error_text(error));
  if (error == ETIMEDOUT) refused_since_.reset();
  else if (!refused_since_) refused_since_ = now;
}

void Dialer::begin(const Caller& caller, Time now) {
  if (connecting_ || connection_ || now < retry_at_) return;
  begun_ = now;
  base::FileDescriptor fd(::socket(address_.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) throw Error(fmt::format("a socket: {}", base::error_text(errno)));
  fd.keep_from_children();
  // Binds to the address by which this rank is known, where the system could choose another one.
  const base::SocketAddress own = base::resolve(caller.address, 0).front();
  const int on = 1;
  if (own.family() == address_.family() && own.is_loopback() == address_.is_loopback()) {
    [[maybe_unused]] const int ignored = ::setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (::bind(fd.get(), own.data(), own.size()) != 0) return not_reached(errno, now);
  }
  base::set_no_delay(fd.get());
  if (::connect(fd.get(), address_.data(), address_.size()) != 0 && errno != EINPROGRESS && errno != EINTR) return not_reached(errno, now);
  connecting_ = std::move(fd);
}

void Dialer::prepare(std::vector<pollfd>& entries, Time& next) const {
  const bool talks = connection_.has_value();
  entries.push_back({talks ? connection_->fd() : connecting_.get(), talks ? connection_->events() : static_cast<short>(POLLOUT), 0});
  if (talks) next = std::min(next, connection_->expires());
  else if (!connecting_) next = std::min(next, retry_at_);
}

bool Dialer::serve(const Caller& caller, short events, Time now) {
  if (events == 0) {
    if (connection_ && connection_->expires() <= now) again(now, "it accepts connections and stays silent");
    return false;
  }
  if (connecting_) {
    if (const int error = base::error_of_connecting(connecting_.get()); error != 0) return not_reached(error, now), false;
    reached_ = true;
    refused_since_.reset();
    connection_.emplace(std::move(connecting_), Handshake::connecting(caller.secret, caller.rank, rank_), caller.tls.get(), base::TlsSide::connecting,
                        now + patience_with_ranks);
    events = 0;
  }
  try {
    if (!connection_->go_on((events & ~POLLOUT) != 0)) return again(now, "it closed the connection"), false;
  } catch (const ProtocolError& error) {
    throw ProtocolError(
        fmt::format("the process that answers for rank {} at {} is not that rank: {}", rank_, base::describe(address_), error.message()));
  }
  return connection_->done();
}

bool Dialer::is_under_way(Time now) const { return connection_.has_value() || (connecting_ && now - begun_ < patience_with_connecting); }

bool Dialer::is_refused(Time now) const { return refused_since_ && now - *refused_since_ >= patience_with_refusal; }

}  // namespace unisono::transport
