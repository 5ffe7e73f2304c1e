#include "transport/tcp/meeting.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <optional>
#include <set>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error_text.h"
#include "base/interruption.h"
#include "base/socket.h"
#include "base/tls.h"
#include "store/authentication.h"
#include "store/table.h"
#include "transport/tcp/acceptor.h"
#include "transport/tcp/handshake.h"

namespace unisono::transport {
namespace {

using base::Clock;
using base::Deadline;
using base::FileDescriptor;
using base::SocketAddress;
using Time = Clock::time_point;
using namespace std::chrono_literals;

constexpr auto patience_with_ranks = 10s;   ///< for one attempt, once connected: the other side may be busy with strangers
constexpr auto patience_with_refusal = 2s;  ///< all peers listen by then, so a refusal is no matter of time
constexpr auto longest_pause = 500ms;
constexpr auto dialler_look_period = 100ms;
constexpr auto first_pause = 10ms;
constexpr std::int64_t longest_poll_ms = 1000;
constexpr int largest_port = 65535;
constexpr const char* secret_key = "link/secret";
constexpr const char* encryption_key = "link/encryption";  ///< how rank 0 does it
constexpr const char* hint = "every rank must reach every other one, at any port; UNISONO_INTERFACE names the interface";

std::string address_key(int rank) { return fmt::format("link/address/{}", rank); }

SocketAddress parse_address(const std::string& text, int rank) {
  const auto space = text.find(' ');
  int port = 0;
  for (std::size_t i = space + 1; space != std::string::npos && i < text.size() && port <= largest_port; ++i) {
    port = text[i] >= '0' && text[i] <= '9' ? port * 10 + (text[i] - '0') : largest_port + 1;
  }
  if (port < 1 || port > largest_port) throw ProtocolError(fmt::format("a malformed entry {} in the store", address_key(rank)));
  return base::resolve(text.substr(0, space), static_cast<std::uint16_t>(port)).front();
}

bool are_connected(const Link::Options& options, int a, int b) {
  return a != b && (options.all || options.hosts[static_cast<std::size_t>(a)] != options.hosts[static_cast<std::size_t>(b)]);
}

// Returns true where a lower rank connects to this one: the lower rank of each pair connects.
bool listens(const Link::Options& options, int rank) {
  for (int lower = 0; lower < rank; ++lower) {
    if (are_connected(options, lower, rank)) return true;
  }
  return false;
}

/// The connection attempts to one rank.
struct Dialer {
  int rank;
  SocketAddress address;
  FileDescriptor connecting = {};
  std::optional<HandshakeConnection> connection = {};
  Time retry_at = Time::min();
  std::chrono::milliseconds pause = first_pause;
  std::optional<Time> refused_since = {};
  bool reached = false;
  std::string reason = "nothing answers";

  void again(Time now, std::string why) {
    connecting.reset();
    connection.reset();
    reason = std::move(why);
    retry_at = now + pause;
    pause = std::min<std::chrono::milliseconds>(2 * pause, longest_pause);
  }
};

/// Returns how a rank's connections are encrypted: two sides with different answers do not understand each other.
std::string encryption_of(const base::TlsOptions& options) {
  return !options.wanted() ? "off" : options.has_certificate() ? "with certificates" : "with the job's secret";
}

class Meeting {
 public:
  explicit Meeting(const Link::Options& options) : options_(options), deadline_(options.timeout) {
    for (const int rank : peers_of(options)) (rank < options.rank ? awaited_ : sought_).push_back(rank);
  }

  std::map<int, Established> run() {
    if (!awaited_.empty()) listen();
    learn();
    while (established_.size() < awaited_.size() + sought_.size()) {
      if (deadline_.passed()) give_up();
      step();
    }
    return std::move(established_);
  }

 private:
  void listen();
  void learn();
  void learn_encryption();
  void step();
  void begin(Dialer& dialer, Time now);
  void serve(Dialer& dialer, short events, Time now);
  void not_reached(Dialer& dialer, int error, Time now);
  [[noreturn]] void unreachable(const Dialer& dialer, const std::string& why) const;
  [[noreturn]] void give_up() const;

  const Link::Options& options_;
  const Deadline deadline_;
  std::vector<int> awaited_, sought_;
  std::optional<Acceptor> acceptor_;
  std::string secret_;
  std::shared_ptr<const base::TlsContext> tls_;
  std::list<Dialer> dialers_;
  std::map<int, Established> established_;
  Time next_look_ = Clock::now() + dialler_look_period;
};

void Meeting::listen() {
  acceptor_.emplace(options_.rank, options_.address, awaited_);
  options_.store->set(address_key(options_.rank), fmt::format("{} {}", base::resolve(options_.address, 0).front().host(), acceptor_->port()));
}

// Waits for the addresses of all listening ranks before it connects, so attempts succeed at once as a rule.
void Meeting::learn() {
  if (options_.rank == 0) {
    options_.store->set(encryption_key, encryption_of(options_.tls));
    options_.store->set(secret_key, store::fresh_nonce());
  }
  std::map<std::string, int> needed{{secret_key, 0}};
  for (int rank = 1; rank < static_cast<int>(options_.hosts.size()); ++rank) {
    if (listens(options_, rank)) needed.emplace(address_key(rank), rank);
  }
  std::vector<std::string> keys;
  for (const auto& [key, rank] : needed) keys.push_back(key);
  try {
    options_.store->wait(keys, deadline_.left());
  } catch (const Timeout&) {
    std::set<int> absent;
    for (const auto& [key, rank] : needed) {
      if (!options_.store->try_get(key)) absent.insert(rank);
    }
    throw Timeout(fmt::format("rank {} was ready to connect, but within {} ms rank {} did not come so far", options_.rank, options_.timeout.count(),
                              fmt::join(absent, ", ")),
                  {}, {absent.begin(), absent.end()});
  }
  secret_ = options_.store->get(secret_key, deadline_.left());
  if (secret_.size() != secret_size) throw ProtocolError("the store holds a link's secret of the wrong length");
  // The job's own secret makes the link's secret unknown to a process that only overheard the store's traffic.
  if (!options_.token.empty()) secret_ = store::message_code(options_.token, "unisono link: secret", secret_);
  learn_encryption();
  if (acceptor_) acceptor_->open(secret_, tls_);
  for (const int rank : sought_) {
    dialers_.push_back({.rank = rank, .address = parse_address(options_.store->get(address_key(rank), deadline_.left()), rank)});
  }
}

void Meeting::learn_encryption() {
  const std::string of_rank_0 = options_.store->get(encryption_key, deadline_.left());
  const std::string own = encryption_of(options_.tls);
  if (own != of_rank_0) {
    throw ProtocolError(
        fmt::format("the encryption between the ranks is {} on rank {} and {} on rank 0", own, options_.rank, store::printable(of_rank_0)),
        {.hint = "UNISONO_TLS and UNISONO_TLS_CERT must be set on all ranks or on none"});
  }
  if (options_.tls.wanted()) tls_ = base::make_tls_context(options_.tls, store::derived_key(secret_, "unisono link: TLS 1.3 pre-shared key"));
}

void Meeting::step() {
  Time now = Clock::now();
  for (Dialer& dialer : dialers_) {
    if (!dialer.connecting && !dialer.connection && dialer.retry_at <= now) begin(dialer, now);
  }
  std::vector<pollfd> entries;
  Time next = now + dialler_look_period;
  if (acceptor_) acceptor_->prepare(entries, now, next);
  const std::size_t at_door = entries.size();
  for (const Dialer& dialer : dialers_) {
    const bool talking = dialer.connection.has_value();
    entries.push_back(
        {talking ? dialer.connection->fd() : dialer.connecting.get(), talking ? dialer.connection->events() : static_cast<short>(POLLOUT), 0});
    if (talking) next = std::min(next, dialer.connection->expires());
    else if (!dialer.connecting) next = std::min(next, dialer.retry_at);
  }
  base::check_interruption();
  const auto wait = std::clamp<std::int64_t>(std::chrono::ceil<std::chrono::milliseconds>(next - now).count(), 0, longest_poll_ms);
  if (::poll(entries.data(), entries.size(), deadline_.poll_timeout(static_cast<int>(wait))) < 0 && errno != EINTR)
    throw Error(fmt::format("poll: {}", base::error_text(errno)));
  now = Clock::now();
  const std::span<const pollfd> served(entries);
  if (acceptor_) acceptor_->serve(served.first(at_door), [&](int rank, Established connection) { established_[rank] = std::move(connection); });
  std::size_t i = at_door;
  for (Dialer& dialer : dialers_) {
    if (const short events = served[i++].revents; events != 0) serve(dialer, events, now);
    else if (dialer.connection && dialer.connection->expires() <= now) dialer.again(now, "it accepts connections and stays silent");
  }
  std::erase_if(dialers_, [&](const Dialer& dialer) { return established_.contains(dialer.rank); });
  if (now < next_look_) return;
  next_look_ = now + dialler_look_period;
  static_cast<void>(options_.store->try_get(secret_key));  // a watched store throws here if one of the ranks will not come
}

void Meeting::begin(Dialer& dialer, Time now) {
  FileDescriptor fd(::socket(dialer.address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) throw Error(fmt::format("a socket: {}", base::error_text(errno)));
  fd.keep_from_children();
  // Binds to the address by which this rank is known, where the system could choose another one.
  const SocketAddress own = base::resolve(options_.address, 0).front();
  const int on = 1;
  if (own.family() == dialer.address.family() && own.is_loopback() == dialer.address.is_loopback()) {
    [[maybe_unused]] const int ignored = ::setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (::bind(fd.get(), own.data(), own.size()) != 0) return not_reached(dialer, errno, now);
  }
  base::set_no_delay(fd.get());
  if (::connect(fd.get(), dialer.address.data(), dialer.address.size()) != 0 && errno != EINPROGRESS && errno != EINTR)
    return not_reached(dialer, errno, now);
  dialer.connecting = std::move(fd);
}

void Meeting::serve(Dialer& dialer, short events, Time now) {
  if (dialer.connecting) {
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(dialer.connecting.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return not_reached(dialer, error, now);
    dialer.reached = true;
    dialer.refused_since.reset();
    dialer.connection.emplace(std::move(dialer.connecting), Handshake::connecting(secret_, options_.rank, dialer.rank), tls_.get(),
                              base::TlsSide::connecting, now + patience_with_ranks);
    events = 0;
  }
  try {
    if (!dialer.connection->go_on((events & ~POLLOUT) != 0)) return dialer.again(now, "it closed the connection");
  } catch (const ProtocolError& error) {
    throw ProtocolError(
        fmt::format("what answers for rank {} at {} is not that rank: {}", dialer.rank, base::describe(dialer.address), error.message()));
  }
  if (dialer.connection->done()) established_[dialer.rank] = dialer.connection->take();
}

void Meeting::not_reached(Dialer& dialer, int error, Time now) {
  dialer.again(now, base::error_text(error));
  if (!dialer.refused_since) dialer.refused_since = now;
  if (error != ETIMEDOUT && now - *dialer.refused_since >= patience_with_refusal) unreachable(dialer, dialer.reason);
}

void Meeting::unreachable(const Dialer& dialer, const std::string& why) const {
  throw BackendUnavailable(fmt::format("rank {} at {} cannot be reached from rank {} at {}: {}", dialer.rank, base::describe(dialer.address),
                                       options_.rank, with_interface(options_.address), why),
                           {.culprit = dialer.rank, .hint = hint});
}

void Meeting::give_up() const {
  std::vector<int> missing;
  for (const int rank : awaited_) {
    if (!established_.contains(rank)) missing.push_back(rank);
  }
  std::string why;
  for (const Dialer& dialer : dialers_) {
    if (!dialer.reached) unreachable(dialer, dialer.reason);
    missing.push_back(dialer.rank);
    why += fmt::format("; rank {} at {}: {}", dialer.rank, base::describe(dialer.address), dialer.reason);
  }
  std::sort(missing.begin(), missing.end());
  throw Timeout(fmt::format("rank {} at {} could not connect with rank {} within {} ms{}", options_.rank, with_interface(options_.address),
                            fmt::join(missing, ", "), options_.timeout.count(), why),
                {.hint = hint}, missing);
}

}  // namespace

std::vector<int> peers_of(const Link::Options& options) {
  std::vector<int> peers;
  for (int rank = 0; rank < static_cast<int>(options.hosts.size()); ++rank) {
    if (are_connected(options, options.rank, rank)) peers.push_back(rank);
  }
  return peers;
}

std::map<int, Established> meet(const Link::Options& options) {
  if (peers_of(options).empty()) return {};
  return Meeting(options).run();
}

}  // namespace unisono::transport
