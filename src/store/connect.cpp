// Reaches a store over TCP: tries address after address, with pauses that grow, until one proves to be the job's.
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "base/switches.h"
#include "base/tls.h"
#include "store/authentication.h"
#include "store/client.h"
#include "unisono/detail/switches.h"
#include "unisono/error.h"

namespace unisono::store {

using base::Deadline;
using namespace std::chrono_literals;

namespace {

constexpr auto answer_timeout = 5s;  ///< of one attempt, once it is connected
constexpr auto first_pause = 5ms, longest_pause = 500ms;
constexpr auto connect_timeout_of_several = 2s;  ///< of one address among several, so that none uses up the time of the others
constexpr std::size_t largest_handshake_frame = 4096;

/// A handshake in progress: blocking calls with one deadline over a non-blocking socket.
class Handshake {
 public:
  Handshake(int fd, const Deadline& deadline) : fd_(fd), deadline_(deadline) {}

  // Begins to encrypt.
  void encrypt(const base::TlsContext& context) {
    using Progress = base::TlsConnection::Progress;
    std::string why;
    tls_ = context.open(fd_, base::TlsSide::connecting, why);
    if (!tls_) throw Lost{why};
    for (;;) {
      const Progress progress = tls_->shake_hands();
      if (progress == Progress::done) return;
      if (progress == Progress::lost) throw Lost{tls_->error()};
      if (progress == Progress::failed)
        throw ProtocolError(printable(tls_->error()), {.hint = "UNISONO_TLS and UNISONO_TOKEN must be the same on every rank"});
      const auto events = static_cast<short>(POLLIN | (tls_->has_unsent() ? POLLOUT : 0));
      if (!base::wait_for(fd_, events, deadline_)) throw Lost{"it accepts connections and stays silent"};
    }
  }
  std::string binding() const { return tls_ ? tls_->binding() : std::string(); }
  std::unique_ptr<base::TlsConnection> take_tls() { return std::move(tls_); }

  // The other side has gone or is silent; another attempt may succeed.
  struct Lost {
    std::string reason;
  };

  void send(const std::string& bytes) {
    const ssize_t n = base::send(fd_, tls_.get(), bytes.data(), bytes.size());
    // The kernel's buffer of a new connection has room for these few bytes.
    if (n != static_cast<ssize_t>(bytes.size())) throw Lost{n < 0 ? base::error_text(errno) : "the connection takes nothing"};
  }

  std::string receive_greeting() {
    while (in_.size() < greeting_size) {
      // A greeting that begins otherwise is foreign, and the other side may never send as many bytes as ours has.
      if (!magic.starts_with(in_.peek().substr(0, magic.size()))) return std::string(in_.peek());
      receive();
    }
    return *in_.take(greeting_size);
  }

  std::string receive_frame() {
    for (;;) {
      bool too_long = false;
      if (auto frame = in_.take_frame(largest_handshake_frame, too_long)) return *frame;
      if (too_long) throw ProtocolError("it sent a frame that is too long");
      receive();
    }
  }

  FrameBuffer take_rest() { return std::move(in_); }

 private:
  void receive() {
    std::array<char, 512> chunk;
    for (;;) {
      const bool has_more = tls_ && tls_->has_unread();
      if (!has_more && !base::wait_for(fd_, POLLIN, deadline_)) throw Lost{"it accepts connections and stays silent"};
      const ssize_t n = base::receive(fd_, tls_.get(), chunk.data(), chunk.size());
      if (n > 0) return in_.append({chunk.data(), static_cast<std::size_t>(n)});
      if (n == 0) throw Lost{"it closed the connection"};
      if (errno == EINTR || errno == EAGAIN) continue;
      if (tls_ && !tls_->error().empty()) throw ProtocolError(printable(tls_->error()));
      throw Lost{base::error_text(errno)};
    }
  }

  int fd_;
  const Deadline& deadline_;
  std::unique_ptr<base::TlsConnection> tls_;
  FrameBuffer in_;
};

// Returns the keys of the frames behind it. Throws Handshake::Lost or ProtocolError.
std::optional<base::FrameKeys> shake_hands(Handshake& peer, const ConnectOptions& options) {
  if (options.tls) peer.encrypt(*options.tls);
  peer.send(greeting());
  const std::string bytes = peer.receive_greeting();
  const Greeting theirs = bytes.size() < greeting_size ? Greeting{} : parse_greeting(bytes);
  if (!theirs.is_ours) throw ProtocolError("the server there is not a unisono store");
  if (theirs.wire != wire_version) throw ProtocolError(fmt::format("it is unisono {}, this process is {}", describe(theirs), describe_own_version()));

  Exchange exchange{fresh_nonce(), {}, options.job_tag, peer.binding()};
  peer.send(Writer(Op::hello).text(exchange.client_nonce).text(exchange.job_tag).integer(options.token.empty() ? 0 : 1).finish());
  const auto expect = [](const std::string& frame, Status status) {
    Reader in(frame);
    const auto said = static_cast<Status>(in.byte());
    in.integer();
    if (said == Status::refused) {
      const std::string why(in.text());
      throw ProtocolError(printable(why), {.hint = why.find("token") == std::string::npos ? "" : "UNISONO_TOKEN must be the same on every rank"});
    }
    if (said != status || !in.ok()) throw ProtocolError("its handshake is malformed");
    return in;
  };
  const std::string challenge = peer.receive_frame();
  Reader challenged = expect(challenge, Status::challenge);
  exchange.server_nonce = challenged.text();
  const bool has_token = challenged.integer() != 0;
  if (!challenged.complete() || exchange.server_nonce.size() != nonce_size) throw ProtocolError("its handshake is malformed");
  // A store without the token is not this job's.
  if (has_token != !options.token.empty()) throw ProtocolError("it has no token, but this process has one");
  peer.send(Writer(Op::proof).text(client_proof(options.token.view(), exchange)).finish());
  const std::string verdict = peer.receive_frame();
  Reader proved = expect(verdict, Status::ok);
  if (!same_proof(proved.text(), server_proof(options.token.view(), exchange)))
    throw ProtocolError("it could not show that it knows this job's token");
  return client_keys(options.token.view(), exchange);
}

bool all_loopback(const std::vector<base::SocketAddress>& addresses) {
  return std::ranges::all_of(addresses, [](const base::SocketAddress& address) { return address.is_loopback(); });
}

}  // namespace

Attempt try_connect_store(const base::SocketAddress& address, const std::string& place, const ConnectOptions& options, const Deadline& deadline) {
  base::Opened opened = base::try_connect(address, deadline);
  if (!opened.fd) return {{}, fmt::format("{}: {}", describe(address), base::error_text(opened.error))};
  base::set_no_delay(opened.fd.get());
  base::end_when_silent(opened.fd.get(), options.silence.value_or(detail::silence_limit()));
  const Deadline own(std::min<std::chrono::milliseconds>(deadline.left(), answer_timeout));
  if (address.family() == AF_UNIX && !base::peer_is_same_user(opened.fd.get())) {
    return {{}, fmt::format("{}: another user's process listens there", describe(address)), true};
  }
  try {
    if (address.family() == AF_UNIX) {
      auto client = std::make_shared<Client>(std::move(opened.fd), place);
      client->send_greeting();
      return {std::move(client), {}};
    }
    Handshake peer(opened.fd.get(), own);
    const auto keys = shake_hands(peer, options);
    const Client::Addresses addresses{base::local_address(opened.fd.get()), address};
    auto client = std::make_shared<Client>(std::move(opened.fd), place, peer.take_rest(), nullptr, peer.take_tls());
    client->set_addresses(addresses);
    if (keys) client->use_codes(*keys);
    return {std::move(client), {}};
  } catch (const Handshake::Lost& lost) {
    return {{}, fmt::format("{}: {}", describe(address), lost.reason)};
  } catch (const ProtocolError& error) {
    return {{}, error.what(), true};
  }
}

std::shared_ptr<Client> connect_tcp(const std::vector<base::SocketAddress>& addresses, const std::string& place, const ConnectOptions& options,
                                    const Deadline& deadline) {
  for (const base::SocketAddress& address : addresses) base::check_interface(address);
  auto pause = std::chrono::milliseconds(first_pause);
  int attempts = 0;
  for (;;) {
    std::string reasons;
    for (const base::SocketAddress& address : addresses) {
      ++attempts;
      const Deadline own(addresses.size() == 1 ? deadline.left() : std::min<std::chrono::milliseconds>(deadline.left(), connect_timeout_of_several));
      Attempt attempt = try_connect_store(address, place, options, own);
      if (attempt.client) return std::move(attempt.client);
      if (attempt.final && !options.strangers_expected) throw ProtocolError(fmt::format("{}: {}", place, attempt.reason));
      if (!reasons.empty()) reasons += "; ";
      reasons += attempt.reason;
    }
    if (deadline.passed()) {
      throw Timeout(fmt::format("{} could not be reached within {} ms and {} attempts ({})", place, deadline.timeout().count(), attempts, reasons),
                    {.hint = all_loopback(addresses) && addresses.front().family() != AF_UNIX
                                 ? "is rank 0 running on this host? A loopback address leads nowhere else"
                                 : "is rank 0 running, and is the address its own? `unisono doctor --hosts A,B` shows whether a firewall is in the "
                                   "way"});
    }
    base::check_interruption();
    // The system does not announce a new listener, so it is tried again, at growing intervals.
    ::poll(nullptr, 0, static_cast<int>(std::min<std::chrono::milliseconds>(pause, deadline.left()).count()));
    pause = std::min<std::chrono::milliseconds>(pause * 2, longest_pause);
  }
}

base::FileDescriptor listen_on(const std::vector<base::SocketAddress>& addresses) {
  std::string reasons;
  std::string hint;
  for (const base::SocketAddress& address : addresses) {
    if (address.is_any()) {
      throw InvalidArgument(fmt::format("the store does not listen on every interface of this host, as {} means", describe(address)),
                            {.hint = "give the address by which the other ranks reach this host"});
    }
    base::check_interface(address);
    base::Opened opened = base::try_listen(address);
    if (opened.fd) return std::move(opened.fd);
    if (!reasons.empty()) reasons += "; ";
    reasons += fmt::format("{}: {}", describe(address), base::error_text(opened.error));
    if (opened.error == EADDRINUSE) hint = "another job, or a second rank 0, holds the port: choose another one, or end what listens there";
    if (opened.error == EADDRNOTAVAIL) hint = "the address must be one of this host's own";
    if (opened.error == EMFILE) hint = "this process has too many files open: see ulimit -n";
  }
  throw InvalidArgument(fmt::format("the store cannot listen: {}", reasons), {.hint = hint});
}

std::shared_ptr<Client> connect_own(StoreServer& server, const std::string& place) {
  base::SocketPair pair = base::make_socket_pair();
  server.adopt(std::move(pair.second));
  auto client = std::make_shared<Client>(std::move(pair.first), place);
  client->send_greeting();
  return client;
}

std::shared_ptr<Client> serve(base::FileDescriptor listening, const std::string& place, ServerOptions options) {
  auto server = std::make_unique<StoreServer>(std::move(options));
  const base::SocketAddress address = base::local_address(listening.get());
  base::SocketPair pair = base::make_socket_pair();
  server->adopt(std::move(pair.second));
  server->listen(std::move(listening));
  auto client = std::make_shared<Client>(std::move(pair.first), place, FrameBuffer{}, std::move(server));
  client->send_greeting();
  if (address.family() != AF_UNIX) client->set_addresses({address, address});
  return client;
}

}  // namespace unisono::store
