#include "store/serve.h"

#include <cerrno>

#include <fmt/format.h>

#include "unisono/error.h"

namespace unisono::store {

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
