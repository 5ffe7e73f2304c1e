#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/socket.h"
#include "store/authentication.h"
#include "store/client.h"
#include "unisono/error.h"
#include "unisono/store.h"

namespace unisono {

struct TcpStore::State {
  std::string host;
  std::uint16_t port = 0;
  std::shared_ptr<store::Client> client;
  /// The deadlines of this object are those of the calls.
  store::Client& with(Milliseconds timeout) const {
    client->set_timeout(timeout);
    return *client;
  }
};

namespace {

/// InvalidArgument unless the descriptor is a TCP socket that listens at one of the addresses, at their port unless that is 0.
void check_listener(int fd, std::span<const base::SocketAddress> addresses) {
  if (!base::is_stream_socket(fd, AF_INET) && !base::is_stream_socket(fd, AF_INET6)) {
    throw InvalidArgument(fmt::format("listen_fd {} is no TCP socket", fd));
  }
  const base::SocketAddress own = base::local_address(fd);
  if (!base::is_listening(fd)) throw InvalidArgument(fmt::format("listen_fd {} is a socket that does not listen", fd));
  const bool is_given = std::ranges::any_of(
      addresses, [&](const base::SocketAddress& each) { return each.host() == own.host() && (each.port() == 0 || each.port() == own.port()); });
  if (!is_given) throw InvalidArgument(fmt::format("listen_fd {} listens at {}, and the store is to listen elsewhere", fd, base::describe(own)));
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): the public header has it so
TcpStore::TcpStore(std::string host, std::uint16_t port, TcpStoreOptions options) : state_(std::make_unique<State>()) {
  const base::Deadline deadline(options.timeout);
  const auto& environment = base::Environment::process();
  state_->host = std::move(host);
  state_->port = port;
  set_timeout(options.timeout);
  if (options.listen_fd < -1) throw InvalidArgument(fmt::format("listen_fd is a descriptor, or -1 for none, not {}", options.listen_fd));
  base::FileDescriptor listening(options.listen_fd);
  if (!options.is_server) {
    if (options.listen_fd >= 0) throw InvalidArgument("listen_fd is the server's; this TcpStore is a client");
    const auto addresses = base::resolve(state_->host, port, deadline);
    const base::Secret token = store::token_for(addresses, options.token, environment);
    const std::string place = "the store at " + base::describe(state_->host, port);
    state_->client = store::connect_tcp(addresses, place, {.token = token, .tls = store::tls_for(token, environment)}, deadline);
    return;
  }
  const auto addresses = base::resolve(state_->host, port);
  base::Secret token;
  if (listening) {
    check_listener(listening.get(), addresses);
    const base::SocketAddress address = base::local_address(listening.get());
    token = store::token_for({&address, 1}, options.token, environment);
  } else {
    token = store::token_for(addresses, options.token, environment);
    listening = store::listen_on(addresses);
  }
  state_->port = base::local_address(listening.get()).port();
  state_->client = store::serve(std::move(listening), "the store at " + base::describe(state_->host, state_->port),
                                {.token = token, .tls = store::tls_for(token, environment)});
}

TcpStore::~TcpStore() = default;

void TcpStore::set(std::string_view key, std::string_view value) { state_->with(timeout()).set(key, value); }
std::string TcpStore::get(std::string_view key, std::optional<Milliseconds> timeout) {
  return state_->client->get(key, timeout.value_or(this->timeout()));
}
std::optional<std::string> TcpStore::try_get(std::string_view key) { return state_->with(timeout()).try_get(key); }
std::int64_t TcpStore::add(std::string_view key, std::int64_t amount) { return state_->with(timeout()).add(key, amount); }
void TcpStore::wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) {
  state_->client->wait(keys, timeout.value_or(this->timeout()));
}
std::string TcpStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  return state_->with(timeout()).compare_set(key, expected, desired);
}
bool TcpStore::erase(std::string_view key) { return state_->with(timeout()).erase(key); }
std::int64_t TcpStore::num_keys() { return state_->with(timeout()).num_keys(); }
const std::string& TcpStore::host() const noexcept { return state_->host; }
std::uint16_t TcpStore::port() const noexcept { return state_->port; }

}  // namespace unisono
