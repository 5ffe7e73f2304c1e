#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "base/socket.h"
#include "input.h"
#include "store/authentication.h"
#include "store/server.h"
#include "store/wire.h"
#include "unisono/error.h"

// The client of a store server, word by word. It knows the token, so that what it sends gets behind the handshake and the codes.
namespace unisono::fuzz {

inline const std::string token = "a token of many bytes";
inline constexpr auto patience = std::chrono::seconds(20);

inline bool eventually(const std::function<bool()>& condition) {
  const base::Deadline deadline(patience);
  while (!condition()) {
    if (deadline.passed()) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Has the server listen on loopback.
inline base::SocketAddress listen_at(store::StoreServer& server) {
  auto listening = base::try_listen(base::resolve("127.0.0.1", 0).front());
  require(listening.fd.valid(), "there is a port on loopback");
  const auto address = base::local_address(listening.fd.get());
  server.listen(std::move(listening.fd));
  return address;
}

class StoreClient {
 public:
  struct Heard {
    store::Status status = store::Status::ok;
    std::uint64_t request = 0;
    std::string fields;
  };

  /// Makes a client of this host, which the server trusts.
  static std::unique_ptr<StoreClient> adopt(store::StoreServer& server) {
    int ends[2] = {-1, -1};
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "there are sockets");
    server.adopt(base::FileDescriptor(ends[0]));
    std::unique_ptr<StoreClient> client(new StoreClient(base::FileDescriptor(ends[1])));
    client->send_greeting();
    return client;
  }
  /// Makes a client of another host, which proves itself.
  static std::unique_ptr<StoreClient> connect(const base::SocketAddress& address) {
    std::unique_ptr<StoreClient> client(new StoreClient(base::try_connect(address, base::Deadline(patience)).fd));
    client->send_greeting();
    store::Exchange exchange{std::string(store::nonce_size, 'c'), {}, {}};
    client->send(store::Writer(store::Op::hello).text(exchange.client_nonce).text("").integer(1).finish());
    const Heard challenge = client->hear();
    require(challenge.status == store::Status::challenge, "the server challenges a client that has a token");
    store::Reader in(challenge.fields);
    exchange.server_nonce = in.text();
    client->send(store::Writer(store::Op::proof).text(store::client_proof(token, exchange)).finish());
    require(client->hear().status == store::Status::ok, "the server lets a client in that knows the token");
    const auto keys = store::client_keys(token, exchange);
    client->sealer_.emplace(keys->sending);
    client->opener_.emplace(keys->receiving);
    return client;
  }

  bool has_codes() const { return sealer_.has_value(); }
  std::string seal(std::string frame) { return sealer_ ? sealer_->seal(std::move(frame)) : frame; }
  void send(std::string_view bytes) {
    require(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()), "the server takes what is sent");
  }

  /// Returns the next frame.
  Heard hear() {
    for (;;) {
      bool too_long = false;
      auto fault = store::FrameOpener::Fault::none;
      const auto frame = opener_ ? opener_->take(buffer_, longest, fault) : buffer_.take_frame(longest, too_long);
      require(!too_long && fault == store::FrameOpener::Fault::none, "the server's frames are whole");
      if (frame) {
        store::Reader in(*frame);
        Heard heard;
        heard.status = static_cast<store::Status>(in.byte());
        heard.request = in.integer();
        require(in.ok(), "an answer has a head");
        heard.fields = in.rest();
        return heard;
      }
      receive();
    }
  }

 private:
  static constexpr std::size_t longest = std::size_t{1} << 20;
  explicit StoreClient(base::FileDescriptor fd) : fd_(std::move(fd)) { require(fd_.valid(), "there is a connection"); }

  void send_greeting() {
    send(store::greeting());
    while (buffer_.size() < store::greeting_size) receive();
    require(*buffer_.take(store::greeting_size) == store::greeting(), "the server greets");
  }
  void receive() {
    require(base::wait_for(fd_.get(), POLLIN, base::Deadline(patience)), "the server answers");
    char chunk[4096];
    const ssize_t n = ::recv(fd_.get(), chunk, sizeof chunk, 0);
    require(n > 0, "the server keeps the connection until it has answered");
    buffer_.append({chunk, static_cast<std::size_t>(n)});
  }

  base::FileDescriptor fd_;
  store::FrameBuffer buffer_;
  std::optional<store::FrameSealer> sealer_;
  std::optional<store::FrameOpener> opener_;
};

}  // namespace unisono::fuzz
