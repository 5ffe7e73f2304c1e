// A store whose connections are encrypted: its clients, those that are refused, and strangers.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "covers.h"
#include "served_store.h"
#include "store/authentication.h"
#include "thrown_by.h"
#include "unisono/error.h"
#include "unit/base/tls_testing.h"

namespace unisono::store {
namespace {

using base::Environment;
using unisono::testing::Authority;
using unisono::testing::context_of;
using Variables = std::map<std::string, std::string, std::less<>>;

std::shared_ptr<const base::TlsContext> tls(const std::string& token = "the secret") {
  return tls_for(token, Environment(Variables{{"UNISONO_TLS", "on"}}));
}
ServerOptions served_with(std::shared_ptr<const base::TlsContext> context) { return {.token = "the secret", .tls = std::move(context)}; }
ConnectOptions with(std::shared_ptr<const base::TlsContext> context) { return {.token = "the secret", .tls = std::move(context)}; }

#define EXPECT_SAYS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

TEST(StoreTls, ManyThreadsMakeRequestsOverOneConnection) {
  const Served served(served_with(tls()));
  const auto client = served.client(with(tls()));
  std::vector<std::jthread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::string value(static_cast<std::size_t>(1) << (4 * t + 3), static_cast<char>('a' + t));
      for (int i = 0; i < 50; ++i) {
        client->set(fmt::format("{}/{}", t, i), value);
        if (client->get(fmt::format("{}/{}", t, i), 30s) == value) ++good;
        client->add("sum", 1);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(good, 200);
  EXPECT_EQ(client->add("sum", 0), 200);
}

TEST(StoreTls, LargeValuesPassInBothDirectionsAtOnce) {
  const Served served(served_with(tls()));
  const auto client = served.client(with(tls())), other = served.client(with(tls()));
  std::string large(7'000'017, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 + i / 251);
  client->set("large", large);
  std::jthread writer([&] {
    for (int i = 0; i < 3; ++i) client->set("again", large);
  });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(client->get("large", 30s) == large);
  writer.join();
  EXPECT_TRUE(other->get("again", 30s) == large);
}

// A client that asks for much and reads nothing: the server keeps its requests unread, also those that TLS has read ahead, and answers all in the
// end.
TEST(StoreTls, AClientThatDoesNotReadIsNotReadFrom) {
  const Served served(served_with(tls()));
  const auto client = served.client(with(tls()));
  client->set("large", std::string(4 << 20, 'x'));
  base::Opened opened = base::try_connect(served.address, Deadline(30s));
  std::string why;
  const auto connection = tls()->open(opened.fd.get(), base::TlsSide::connecting, why);
  const auto wait_for = [&](short events) { ASSERT_TRUE(base::wait_for(opened.fd.get(), events, Deadline(30s))); };
  while (connection->shake_hands() != base::TlsConnection::Progress::done) wait_for(POLLIN);
  const auto tell = [&](std::string_view bytes) {
    while (!bytes.empty() || connection->has_unsent()) {
      const ssize_t n = base::send(opened.fd.get(), connection.get(), bytes.data(), bytes.size());
      if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
      if (n < 0) wait_for(POLLOUT);
    }
  };
  FrameBuffer in;
  std::vector<char> chunk(1 << 16);
  const auto hear_more = [&] {
    for (;;) {
      const ssize_t n = base::receive(opened.fd.get(), connection.get(), chunk.data(), chunk.size());
      if (n > 0) return in.append({chunk.data(), static_cast<std::size_t>(n)});
      ASSERT_TRUE(n < 0 && errno == EAGAIN) << n;
      wait_for(POLLIN);
    }
  };
  const auto frame = [&] {
    bool too_long = false;
    auto taken = in.take_frame(8 << 20, too_long);
    while (!taken && !::testing::Test::HasFatalFailure()) hear_more(), taken = in.take_frame(8 << 20, too_long);
    return taken.value_or("");
  };
  const std::string nonce(nonce_size, 'n');
  tell(greeting());
  while (in.size() < greeting_size) hear_more();
  in.take(greeting_size);
  tell(Writer(Op::hello).text(nonce).text("").integer(1).finish());
  Exchange exchange{nonce, {}, {}, connection->binding()};
  const std::string challenged = frame();
  Reader challenge(challenged);
  challenge.byte(), challenge.integer();
  exchange.server_nonce = challenge.text();
  tell(Writer(Op::proof).text(client_proof("the secret", exchange)).finish());
  ASSERT_EQ(status_of(frame()), Status::ok);
  constexpr std::uint64_t many = 13;  // 52 MiB of answers, more than the server lets wait
  std::string requests;
  for (std::uint64_t i = 1; i <= many; ++i) requests += Writer(Op::try_get, i).text("large").finish() + Writer(Op::num_keys, 100 + i).finish();
  tell(requests);
  for (std::uint64_t i = 1; i <= 2 * many; ++i) ASSERT_EQ(status_of(frame()), Status::ok) << i;
  client->set("well", "yes");
}

TEST(StoreTls, NothingCanBeReadOnTheWay) {
  const Served served(served_with(tls()));
  // A relay that writes down what passes.
  auto listening = base::try_listen(base::resolve("127.0.0.1", 0).front());
  const auto address = base::local_address(listening.fd.get());
  std::string passed;
  std::jthread relay([&] {
    ASSERT_TRUE(base::wait_for(listening.fd.get(), POLLIN, Deadline(30s)));
    const FileDescriptor left(::accept4(listening.fd.get(), nullptr, nullptr, SOCK_CLOEXEC)), right = served.raw();
    for (bool open = true; open;) {
      pollfd both[] = {{left.get(), POLLIN, 0}, {right.get(), POLLIN, 0}};
      if (::poll(both, 2, 30000) <= 0) return;
      for (int i = 0; i < 2; ++i) {
        if (both[i].revents == 0) continue;
        char chunk[4096];
        const ssize_t n = ::recv(both[i].fd, chunk, sizeof chunk, 0);
        if (n <= 0) open = false;
        if (n > 0) passed.append(chunk, static_cast<std::size_t>(n));
        if (n > 0) say(i == 0 ? right : left, {chunk, static_cast<std::size_t>(n)});
      }
    }
  });
  {
    const auto client = connect_tcp({address}, "the store", with(tls()), Deadline(30s));
    client->set("a key in the clear", "a value in the clear");
    EXPECT_EQ(client->get("a key in the clear", 10s), "a value in the clear");
  }
  relay.join();
  EXPECT_GT(passed.size(), 500U);
  for (const char* text : {"clear", "UNISTORE", "the secret"}) EXPECT_EQ(passed.find(text), std::string::npos) << text;
}

TEST(StoreTls, EncryptionOnOneSideOnlyIsAnErrorAtOnce) {
  {
    const Served served(served_with(tls()));
    const auto error = thrown_by<ProtocolError>([&] { served.client({.token = "the secret"}); });
    EXPECT_SAYS(error.what(), "this job's connections are encrypted (UNISONO_TLS), and this process's are not");
    expect_still_well(served, with(tls()));
  }
  const Served served({.token = "the secret"});
  const auto error = thrown_by<ProtocolError>([&] { served.client(with(tls())); });
  EXPECT_SAYS(error.what(), "it does not encrypt its connections, and this process does");
  EXPECT_SAYS(error.what(), describe(served.address));
  expect_still_well(served, {.token = "the secret"});
}

TEST(StoreTls, AnotherTokenIsAnErrorAtOnce) {
  const Served served(served_with(tls()));
  const auto error = thrown_by<ProtocolError>([&] { served.client({.token = "another", .tls = tls("another")}); });
  EXPECT_SAYS(error.what(), "it refused this process's token");
  EXPECT_SAYS(error.what(), "UNISONO_TOKEN");
  expect_still_well(served, with(tls()));
}

TEST(StoreTls, CertificatesWorkWithAndWithoutAToken) {
  const Authority authority("the authority");
  const auto one = context_of(authority.identity("one")), other = context_of(authority.identity("other"));
  {
    const Served served({.tls = one});
    expect_still_well(served, {.tls = other});
    EXPECT_SAYS(thrown_by<ProtocolError>([&] { served.client({.token = "a token", .tls = other}); }).what(), "token");
  }
  const Served served({.token = "the secret", .tls = one});
  expect_still_well(served, {.token = "the secret", .tls = other});
  // Somebody with a certificate but without the token is not of the job.
  EXPECT_SAYS(thrown_by<ProtocolError>([&] { served.client({.token = "another", .tls = other}); }).what(), "token");
  EXPECT_SAYS(thrown_by<ProtocolError>([&] { served.client({.tls = other}); }).what(), "token");
}

TEST(StoreTls, ACertificateOfAnotherAuthorityIsAnErrorAtOnce) {
  const Authority ours("ours"), theirs("theirs");
  const Served served({.token = "the secret", .tls = context_of(ours.identity("member"))});
  const auto error = thrown_by<ProtocolError>([&] { served.client(with(context_of(theirs.identity("stranger")))); });
  EXPECT_SAYS(error.what(), "its certificate is not valid: unable to get local issuer certificate");
  // One that takes the server's certificate, and is refused by it.
  unisono::testing::TlsIdentity credulous = theirs.identity("stranger");
  credulous.authority += ours.pem();
  const auto refused = thrown_by<ProtocolError>([&] { served.client(with(context_of(credulous))); });
  EXPECT_SAYS(refused.what(), "it refused this process (tlsv1 alert unknown ca)");
}

// Somebody in between with a certificate of the same authority: each side has a good TLS connection with it, and it passes the proofs on.
TEST(StoreTls, AProofCannotBePassedOnFromOneConnectionToAnother) {
  const Authority authority("the authority");
  const auto context = context_of(authority.identity("somebody"));
  const Served served({.token = "the secret", .tls = context});
  auto listening = base::try_listen(base::resolve("127.0.0.1", 0).front());
  const auto address = base::local_address(listening.fd.get());
  std::jthread between([&] {
    ASSERT_TRUE(base::wait_for(listening.fd.get(), POLLIN, Deadline(30s)));
    const FileDescriptor left(::accept4(listening.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)), right = served.raw();
    std::string why;
    const auto of_left = context->open(left.get(), base::TlsSide::accepting, why),
               of_right = context->open(right.get(), base::TlsSide::connecting, why);
    const Deadline deadline(30s);
    for (bool open = true; open && !deadline.passed();) {
      using Progress = base::TlsConnection::Progress;
      if (of_left->shake_hands() != Progress::done || of_right->shake_hands() != Progress::done) {
        pollfd both[] = {{left.get(), POLLIN, 0}, {right.get(), POLLIN, 0}};
        ::poll(both, 2, 10);
        continue;
      }
      char chunk[4096];
      for (const bool to_right : {true, false}) {
        auto& from = to_right ? *of_left : *of_right;
        auto& to = to_right ? *of_right : *of_left;
        const ssize_t n = unisono::testing::read_from(from, chunk, sizeof chunk);
        if (n > 0) unisono::testing::write_to(to, {chunk, static_cast<std::size_t>(n)});
        if (n == 0 || (n < 0 && errno != EAGAIN)) open = false;
      }
    }
  });
  const auto error = thrown_by<ProtocolError>([&] { connect_tcp({address}, "the store", {.token = "the secret", .tls = context}, Deadline(30s)); });
  EXPECT_SAYS(error.what(), "its token is not the token of this process");
}

TEST(StoreTls, StrangersAreDroppedInTimeAndDelayNobody) {
  const Served served({.token = "the secret", .tls = tls(), .handshake_timeout = 300ms});
  std::mt19937 random(11);
  std::string hello(4096, '\0');
  {
    const auto ends = base::make_socket_pair();
    std::string why;
    const auto connecting = tls()->open(ends.first.get(), base::TlsSide::connecting, why);
    connecting->shake_hands();
    const ssize_t n = ::recv(ends.second.get(), hello.data(), hello.size(), MSG_DONTWAIT);
    ASSERT_GT(n, 0);
    hello.resize(static_cast<std::size_t>(n));
  }
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(served.raw());
    std::string noise(1 + random() % 2000, '\0');
    for (char& byte : noise) byte = static_cast<char>(random());
    const std::string_view half = std::string_view(hello).substr(0, random() % hello.size());
    say(strangers.back(), i % 4 == 0 ? "" : i % 4 == 1 ? half : i % 4 == 2 ? std::string_view(noise) : std::string_view(hello));
  }
  expect_still_well(served, with(tls()));
  for (const FileDescriptor& fd : strangers) hear(fd);  // until it is closed; the test fails where it is not
  wait_until([&] { return served.server.counts().connections == 0; });
}

}  // namespace
}  // namespace unisono::store
