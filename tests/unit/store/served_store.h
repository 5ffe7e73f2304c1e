#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/socket.h"
#include "store/authentication.h"
#include "store/client.h"
#include "store/server.h"
#include "talk.h"

namespace unisono::store {

/// A server on a free loopback port.
class Served {
 public:
  explicit Served(ServerOptions options = {}) : server(std::move(options)) {
    auto listening = base::try_listen(base::resolve("127.0.0.1", 0).front());
    address = base::local_address(listening.fd.get());
    server.listen(std::move(listening.fd));
  }
  std::shared_ptr<Client> client(const ConnectOptions& options = {}) const {
    return connect_tcp({address}, "the store at " + describe(address), options, Deadline(30s));
  }
  FileDescriptor raw() const { return base::try_connect(address, Deadline(30s)).fd; }

  StoreServer server;
  base::SocketAddress address;
};

inline void expect_still_well(const Served& served, const ConnectOptions& options = {}) {
  const auto client = served.client(options);
  client->set("well", "yes");
  EXPECT_EQ(client->get("well", 10s), "yes");
}

/// A connection that may ask, word by word: what it does not read stays unread.
inline FileDescriptor admitted(const Served& served) {
  FileDescriptor fd = served.raw();
  const int little = 4096;
  EXPECT_EQ(::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &little, sizeof little), 0);
  challenge(fd, std::string(nonce_size, 'n'), false);
  say(fd, Writer(Op::proof).text("").finish());
  EXPECT_EQ(status_of(hear_frame(fd)), Status::ok);
  return fd;
}

inline void wait_until(const std::function<bool()>& condition) {
  const Deadline deadline(30s);
  while (!condition() && !deadline.passed()) std::this_thread::yield();
  EXPECT_TRUE(condition());
}

}  // namespace unisono::store
