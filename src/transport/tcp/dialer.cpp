#include "transport/tcp/dialer.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/error_text.h"
#include "base/tls.h"
#include "unisono/error.h"

namespace unisono::transport {
namespace {

using namespace std::chrono_literals;

constexpr auto patience_with_ranks = 10s;      ///< for one attempt, once connected: the other side may be busy with strangers
constexpr auto patience_with_refusal = 2s;     ///< ranks listen by then, so a refusal is no matter of time
constexpr auto patience_with_connecting = 1s;  ///< beyond it the other side is taken to be cut off from this one
constexpr std::chrono::milliseconds longest_pause = 500ms;

}  // namespace

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
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(connecting_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return not_reached(error, now), false;
    reached_ = true;
    refused_since_.reset();
    connection_.emplace(std::move(connecting_), Handshake::connecting(caller.secret, caller.rank, rank_), caller.tls.get(), base::TlsSide::connecting,
                        now + patience_with_ranks);
    events = 0;
  }
  try {
    if (!connection_->go_on((events & ~POLLOUT) != 0)) return again(now, "it closed the connection"), false;
  } catch (const ProtocolError& error) {
    throw ProtocolError(fmt::format("what answers for rank {} at {} is not that rank: {}", rank_, base::describe(address_), error.message()));
  }
  return connection_->done();
}

bool Dialer::is_under_way(Time now) const { return connection_.has_value() || (connecting_ && now - begun_ < patience_with_connecting); }

bool Dialer::is_refused(Time now) const { return refused_since_ && now - *refused_since_ >= patience_with_refusal; }

}  // namespace unisono::transport
