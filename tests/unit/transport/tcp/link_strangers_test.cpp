// Admission to a link: the handshake byte by byte, and strangers at the acceptor.
#include <arpa/inet.h>
#include <poll.h>

#include <algorithm>
#include <future>
#include <random>

#include "base/socket.h"
#include "link_testing.h"
#include "store/authentication.h"
#include "transport/tcp/connecting.h"
#include "transport/tcp/handshake.h"

namespace unisono::testing {
namespace {

using transport::Handshake;

const std::string secret = store::fresh_nonce();

struct Pair {
  Handshake connecting = Handshake::connecting(secret, 0, 1);
  Handshake accepting = Handshake::accepting(secret, 1, {0});
};

TEST(LinkHandshake, BothSidesProveThemselves) {
  Pair pair;
  pair.accepting.receive(pair.connecting.take_output());
  pair.connecting.receive(pair.accepting.take_output());
  EXPECT_FALSE(pair.accepting.done());
  EXPECT_FALSE(pair.connecting.done());
  pair.accepting.receive(pair.connecting.take_output());
  EXPECT_TRUE(pair.accepting.done());
  EXPECT_FALSE(pair.connecting.done());
  pair.connecting.receive(pair.accepting.take_output() + "and on");
  EXPECT_TRUE(pair.connecting.done());
  EXPECT_EQ(pair.connecting.take_rest(), "and on");
  EXPECT_EQ(pair.accepting.from(), 0);
}

TEST(LinkHandshake, ARankThatHasProvedItselfIsPatient) {
  using transport::HandshakeConnection;
  base::SocketPair sockets = base::make_socket_pair();
  for (const auto& each : {&sockets.first, &sockets.second}) base::set_non_blocking(each->get());
  const auto limit = base::Clock::now() + std::chrono::seconds(10);
  HandshakeConnection connecting(std::move(sockets.first), Pair().connecting, nullptr, base::TlsSide::connecting, limit);
  HandshakeConnection accepting(std::move(sockets.second), Pair().accepting, nullptr, base::TlsSide::accepting, limit);
  EXPECT_TRUE(connecting.go_on(false));
  EXPECT_TRUE(accepting.go_on(true));
  EXPECT_EQ(connecting.expires(), limit);
  EXPECT_TRUE(connecting.go_on(true));
  EXPECT_EQ(connecting.expires(), limit + HandshakeConnection::time_to_be_accepted) << "the other side may have accepted it already";
  EXPECT_TRUE(accepting.go_on(true));
  EXPECT_TRUE(accepting.done());
  EXPECT_EQ(accepting.expires(), limit);
  EXPECT_TRUE(connecting.go_on(true));
  EXPECT_TRUE(connecting.done());
}

TEST(LinkHandshake, AHandshakeMayComeByteByByte) {
  Pair pair;
  const auto carry = [](Handshake& from, Handshake& to) {
    const std::string bytes = from.take_output();
    for (std::size_t i = 0; i < bytes.size(); ++i) to.receive(std::string_view(bytes).substr(i, 1));
  };
  for (int i = 0; i < 2; ++i) {
    carry(pair.connecting, pair.accepting);
    carry(pair.accepting, pair.connecting);
  }
  EXPECT_TRUE(pair.connecting.done());
  EXPECT_TRUE(pair.accepting.done());
}

TEST(LinkHandshake, AnotherSecretIsRefusedByTheAcceptor) {
  Pair pair;
  pair.connecting = Handshake::connecting(store::fresh_nonce(), 0, 1);
  pair.accepting.receive(pair.connecting.take_output());
  pair.connecting.receive(pair.accepting.take_output());
  EXPECT_THROW(pair.accepting.receive(pair.connecting.take_output()), ProtocolError);
  EXPECT_EQ(pair.accepting.take_output(), "");
}

TEST(LinkHandshake, TheAcceptorMustProveItselfToo) {
  Pair pair;
  pair.accepting.receive(pair.connecting.take_output());
  pair.connecting.receive(pair.accepting.take_output());
  const std::string proof = pair.connecting.take_output();
  EXPECT_THROW(pair.connecting.receive(proof), ProtocolError);  // its own, reflected
}

TEST(LinkHandshake, NothingCanBeReplayed) {
  Pair first;
  const std::string hello = first.connecting.take_output();
  first.accepting.receive(hello);
  first.connecting.receive(first.accepting.take_output());
  const std::string proof = first.connecting.take_output();
  first.accepting.receive(proof);
  ASSERT_TRUE(first.accepting.done());
  Pair second;
  second.accepting.receive(hello);
  EXPECT_FALSE(second.accepting.take_output().empty());
  EXPECT_THROW(second.accepting.receive(proof), ProtocolError);
}

TEST(LinkHandshake, AProofIsForTheseTwoRanksAlone) {
  // Somebody in between who lets rank 0, on its way to rank 1, arrive at rank 2.
  Handshake connecting = Handshake::connecting(secret, 0, 1);
  Handshake other = Handshake::accepting(secret, 2, {0, 1});
  EXPECT_THROW(other.receive(connecting.take_output()), ProtocolError);
  // A rank that does not connect here, though it knows the secret.
  Handshake higher = Handshake::connecting(secret, 3, 1);
  Pair pair;
  EXPECT_THROW(pair.accepting.receive(higher.take_output()), ProtocolError);
}

TEST(LinkHandshake, NoPartOfItIsEnough) {
  Pair pair;
  const std::string hello = pair.connecting.take_output();
  for (std::size_t n = 0; n < hello.size(); ++n) {
    Handshake accepting = Handshake::accepting(secret, 1, {0});
    accepting.receive(std::string_view(hello).substr(0, n));
    EXPECT_EQ(accepting.take_output(), "") << n;  // a stranger gets nothing to look at
    EXPECT_FALSE(accepting.done());
  }
}

TEST(LinkHandshake, LengthsAndVersionsThatDoNotBelongThere) {
  const std::string hello = Pair().connecting.take_output();
  for (const char* length : {"\x01\x01\0\0", "\0\0\0\x80", "\xff\xff\xff\xff", "\0\0\0\0"}) {
    std::string bytes = hello;
    std::copy(length, length + 4, bytes.begin() + 16);
    Pair pair;
    EXPECT_THROW(pair.accepting.receive(bytes), ProtocolError);
  }
  std::string other_version = hello;
  other_version[8] = 9;
  Pair pair;
  EXPECT_THROW(pair.accepting.receive(other_version), ProtocolError);
  Pair eager;
  eager.accepting.receive(hello);
  eager.connecting.receive(eager.accepting.take_output());
  EXPECT_THROW(eager.accepting.receive(eager.connecting.take_output() + "x"), ProtocolError);  // it must wait for the answer
  EXPECT_THROW(Handshake::connecting("short", 0, 1), ProtocolError);
}

TEST(LinkHandshake, RandomBytesAreRefused) {
  std::mt19937 random(42);
  const std::string hello = Pair().connecting.take_output();
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = hello;
    for (int i = 0; i < 1 + round % 5; ++i) bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
    bytes.resize(random() % (2 * bytes.size()), static_cast<char>(random()));
    Pair pair;
    try {
      pair.accepting.receive(bytes);
    } catch (const ProtocolError&) {
    }
    EXPECT_FALSE(pair.accepting.done());
  }
}

// ---- at the acceptor of a real rank ------------------------------------------------------------------------------

/// Rank 1 is on its way, rank 0 comes when the test lets it.
class UnauthenticatedConnections : public ::testing::Test {
 protected:
  UnauthenticatedConnections() : store_(std::make_shared<MemoryStore>()) {
    rank_1_ = std::async(std::launch::async, [this] { return Link::connect(link_options(1, 2, store_)); });
    const std::string where = store_->get("link/address/1", patience);
    address_ = base::resolve("127.0.0.1", static_cast<std::uint16_t>(std::stoi(where.substr(where.find(' ') + 1)))).front();
  }
  ~UnauthenticatedConnections() override {  // NOLINT(bugprone-exception-escape): a test that ends the program has failed
    if (rank_1_.valid()) meet();
  }

  base::FileDescriptor stranger(std::string_view says = {}) {
    base::Opened opened = base::try_connect(address_, base::Deadline(patience));
    EXPECT_TRUE(opened.fd) << base::error_text(opened.error);
    // It may have been sent away before it has said everything.
    [[maybe_unused]] const auto sent = ::send(opened.fd.get(), says.data(), says.size(), MSG_NOSIGNAL);
    return std::move(opened.fd);
  }

  void meet() {
    const auto rank_0 = Link::connect(link_options(0, 2, store_));
    const auto rank_1 = rank_1_.get();
    int value = 0;
    const auto recv = rank_1->recv(&value, sizeof value, 0, {1, 1});
    const int sent = 4711;
    finish(*rank_0->send(&sent, sizeof sent, 1, {1, 1}));
    finish(*recv);
    EXPECT_EQ(value, 4711);
    EXPECT_NE(base::try_connect(address_, base::Deadline(patience)).error, 0);  // the acceptor is closed
  }

  std::shared_ptr<Store> store_;
  std::future<std::shared_ptr<Link>> rank_1_;
  base::SocketAddress address_;
};

TEST_F(UnauthenticatedConnections, ThreeHundredSilentConnectionsKeepNobodyOut) {
  std::vector<base::FileDescriptor> strangers;
  for (int i = 0; i < 300; ++i) strangers.push_back(stranger());
  const base::Deadline soon(30s);
  meet();
  EXPECT_FALSE(soon.passed());
}

TEST_F(UnauthenticatedConnections, AConnectionWithHalfAHandshakeKeepsNobodyOut) {
  const std::string hello = Handshake::connecting(secret, 0, 1).take_output();
  std::vector<base::FileDescriptor> strangers;
  for (std::size_t n = 1; n <= hello.size(); n += 3) strangers.push_back(stranger(std::string_view(hello).substr(0, n)));
  meet();
}

TEST_F(UnauthenticatedConnections, AConnectionOfAnotherProtocolKeepsNobodyOut) {
  std::mt19937 random(7);
  std::vector<base::FileDescriptor> strangers;
  strangers.push_back(stranger("GET / HTTP/1.1\r\n\r\n"));
  strangers.push_back(stranger(std::string(1 << 20, '\0')));
  for (int i = 0; i < 50; ++i) {
    std::string bytes(1 + random() % 3000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    strangers.push_back(stranger(bytes));
  }
  meet();
  // Everybody of them was sent away, and got no byte.
  for (const auto& fd : strangers) {
    char byte = 0;
    EXPECT_TRUE(base::wait_for(fd.get(), POLLIN, base::Deadline(patience)));
    EXPECT_LE(::recv(fd.get(), &byte, 1, MSG_DONTWAIT), 0);
  }
}

TEST_F(UnauthenticatedConnections, AConnectionWithoutTheSecretKeepsNobodyOut) {
  const auto fd = stranger();
  Handshake impostor = Handshake::connecting(store::fresh_nonce(), 0, 1);
  const std::string hello = impostor.take_output();
  ASSERT_EQ(::send(fd.get(), hello.data(), hello.size(), MSG_NOSIGNAL), static_cast<ssize_t>(hello.size()));
  auto met = std::async(std::launch::async, [this] { meet(); });
  met.get();
}

TEST(LinkMeeting, AnotherSecretEndsInAnError) {
  // A store that shows each rank another secret.
  const auto store = std::make_shared<MemoryStore>();
  class Lying final : public Store {
   public:
    explicit Lying(std::shared_ptr<Store> inner) : inner_(std::move(inner)) {}
    void set(std::string_view key, std::string_view value) override { inner_->set(key, value); }
    std::string get(std::string_view key, std::optional<Milliseconds> timeout) override {
      return key == "link/secret" ? store::fresh_nonce() : inner_->get(key, timeout);
    }
    std::optional<std::string> try_get(std::string_view key) override { return inner_->try_get(key); }
    std::int64_t add(std::string_view key, std::int64_t amount) override { return inner_->add(key, amount); }
    void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) override { inner_->wait(keys, timeout); }
    std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
      return inner_->compare_set(key, expected, desired);
    }
    bool erase(std::string_view key) override { return inner_->erase(key); }
    std::int64_t num_keys() override { return inner_->num_keys(); }

   private:
    std::shared_ptr<Store> inner_;
  };
  as_ranks(2, [&](int rank) {
    try {
      Link::connect(link_options(rank, 2, rank == 0 ? std::shared_ptr<Store>(std::make_shared<Lying>(store)) : store, 1500ms));
      ADD_FAILURE() << "rank " << rank << " got a connection";
    } catch (const Timeout& error) {
      EXPECT_EQ(error.missing(), std::vector<int>{1 - rank});
    } catch (const ProtocolError& error) {  // TLS tells whoever connects
      EXPECT_EQ(rank, 0);
      EXPECT_NE(error.message().find("it refused this process's token"), std::string::npos) << error.message();
    }
  });
}

TEST(LinkMeeting, ARankThatDoesNotComeIsNamed) {
  const auto store = std::make_shared<MemoryStore>();
  try {
    Link::connect(link_options(2, 4, store, 300ms));
    FAIL() << "it connected with nobody";
  } catch (const Timeout& error) {
    EXPECT_EQ(error.missing(), (std::vector<int>{0, 1, 3}));
    EXPECT_NE(error.message().find("rank 0, 1, 3"), std::string::npos) << error.message();
  }
}

TEST(LinkMeeting, AnAddressThatIsNotOursIsRefused) {
  auto options = link_options(1, 2, std::make_shared<MemoryStore>());
  options.address = "192.0.2.1";  // of nobody (RFC 5737)
  try {
    Link::connect(options);
    FAIL() << "it listens on somebody else's address";
  } catch (const BackendUnavailable& error) {
    EXPECT_NE(error.message().find("cannot listen on 192.0.2.1"), std::string::npos) << error.message();
  }
}

TEST(LinkMeeting, AnAddressWhereNobodyListensIsNamed) {
  const auto store = std::make_shared<MemoryStore>();
  std::uint16_t port = 0;
  {
    const auto listening = base::try_listen(base::resolve("127.0.0.1", 0).front());
    port = base::local_address(listening.fd.get()).port();
  }
  store->set("link/address/1", "127.0.0.1 " + std::to_string(port));
  try {
    Link::connect(link_options(0, 2, store));
    FAIL() << "it connected with nobody";
  } catch (const BackendUnavailable& error) {
    EXPECT_EQ(error.culprit(), 1);
    EXPECT_NE(error.message().find("from rank 0 at 127.0.0.1"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("Connection refused"), std::string::npos) << error.message();
  }
  for (const char* text : {"127.0.0.1", "127.0.0.1 ", "127.0.0.1 0", "127.0.0.1 65536", "127.0.0.1 12x", "127.0.0.1 99999999999999999999"}) {
    store->set("link/address/1", text);
    EXPECT_THROW(Link::connect(link_options(0, 2, store)), ProtocolError) << text;
  }
}

TEST(LinkMeeting, ManyRanksComeAtOnce) {
  const int ranks = 12;
  const auto links = make_links(ranks);
  as_ranks(ranks, [&](int rank) {
    const auto& link = links[static_cast<std::size_t>(rank)];
    std::vector<int> in(ranks, -1);
    std::vector<std::unique_ptr<Task>> tasks;
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      tasks.push_back(link->send(&rank, sizeof rank, peer, {1, 1}));
      tasks.push_back(link->recv(&in[static_cast<std::size_t>(peer)], sizeof(int), peer, {1, 1}));
    }
    for (const auto& task : tasks) finish(*task);
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer != rank) {
        EXPECT_EQ(in[static_cast<std::size_t>(peer)], peer);
      }
    }
  });
}

}  // namespace
}  // namespace unisono::testing
