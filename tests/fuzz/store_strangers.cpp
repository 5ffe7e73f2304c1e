// A stranger sends any bytes, in any pieces, to a store's server on TCP. It may know the protocol but not the token. It is never let in, gets few
// bytes, and changes nothing for a client that was let in, whose requests are answered meanwhile.
#include <array>

#include "store_client.h"

namespace unisono::fuzz {
namespace {

/// Returns the next piece: bytes of the input, or a part of the protocol.
std::string piece_of(Input& in) {
  using store::Op;
  using store::Writer;
  switch (in.choice(7)) {
    case 0: return store::greeting();
    case 1: return Writer(Op::hello).text(std::string(store::nonce_size, 'c')).text(in.text()).integer(in.choice(1)).finish();
    case 2: return Writer(Op::proof).text(std::string(store::proof_size, in.number<char>())).finish();
    case 3: return Writer(static_cast<Op>(in.number<std::uint8_t>()), 1).text("key").text(in.text()).finish();
    case 4: return std::string(1 + in.choice(3), in.number<char>());
    default: return in.text();
  }
}

}  // namespace

void check_input(std::string_view bytes) {
  Input in(bytes);
  store::StoreServer server({.token = token});
  const auto address = listen_at(server);
  const auto client = StoreClient::adopt(server);
  client->send(store::Writer(store::Op::set, 1).text("ours").text("value").finish());
  require(client->hear().status == store::Status::ok, "a client is served");
  {
    const auto stranger = base::try_connect(address, base::Deadline(patience)).fd;
    require(stranger.valid(), "the server listens");
    std::array<char, 4096> answer{};
    for (std::uint64_t request = 2; in.has_more() && request < 40; ++request) {
      if (const std::string piece = piece_of(in); ::send(stranger.get(), piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
      client->send(store::Writer(store::Op::num_keys, request).finish());
      const auto heard = client->hear();
      require(heard.request == request && heard.fields == base::ByteWriter().put(std::uint64_t{1}).bytes(), "a stranger changes nothing");
      const ssize_t n = ::recv(stranger.get(), answer.data(), answer.size(), MSG_DONTWAIT);
      require(n <= 1024, "a stranger gets few bytes");
    }
    const auto counts = server.counts();
    require(counts.connections - counts.pending <= 1, "a stranger is not let in");
  }
  require(eventually([&] { return server.counts().connections == 1; }), "the server notices the end of a connection");
  client->send(store::Writer(store::Op::try_get, 99).text("ours").finish());
  require(client->hear().fields == base::ByteWriter().text("value").bytes(), "what was kept is kept");
}

}  // namespace unisono::fuzz
