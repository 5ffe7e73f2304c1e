// The handshake of the store's server (A5, R4, R5): both sides prove that they know the token, and name what else differs.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <thread>

#include <fmt/format.h>

#include "base/socket.h"
#include "served_store.h"
#include "store/authentication.h"
#include "store/wire.h"
#include "talk.h"
#include "unisono/error.h"

namespace unisono::store {
namespace {

TEST(Handshake, BothSidesMustKnowTheToken) {  // A5
  const Served served({.token = "the secret"});
  served.client({.token = "the secret"})->set("a", "1");
  for (const std::string wrong : {"", "the secre", "the secret ", "The secret"}) {
    try {
      served.client({.token = wrong});
      ADD_FAILURE() << "let in with \"" << wrong << "\"";
    } catch (const ProtocolError& error) {
      EXPECT_NE(std::string(error.what()).find("token"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(describe(served.address)), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(served.server.peek("a"), "1");
  expect_still_well(served, {.token = "the secret"});
}

TEST(Handshake, AClientWithATokenDistrustsAServerWithout) {  // A5
  const Served served;
  EXPECT_THROW(served.client({.token = "x"}), ProtocolError);
  expect_still_well(served);
}

TEST(Handshake, AServerThatOnlyPretendsIsFoundOut) {  // A5: it accepts every proof, and cannot give its own
  auto listening = base::try_listen(base::resolve("127.0.0.1", 0).front());
  const auto address = base::local_address(listening.fd.get());
  std::thread impostor([&] {
    ASSERT_TRUE(base::wait_for(listening.fd.get(), POLLIN, Deadline(30s)));
    const FileDescriptor fd(::accept4(listening.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
    hear(fd, greeting_size);
    say(fd, greeting());
    hear_frame(fd);
    say(fd, Writer(Status::challenge).text(std::string(nonce_size, 'n')).integer(1).finish());
    const std::string frame = hear_frame(fd);
    Reader in(frame);
    in.byte();
    in.integer();
    // The best it can do is to send the client's own proof back.
    say(fd, Writer(Status::ok).text(in.text()).finish());
  });
  EXPECT_THROW(connect_tcp({address}, "the store", {.token = "the secret"}, Deadline(30s)), ProtocolError);
  impostor.join();
}

TEST(Handshake, WhatWasHeardOnceOpensNothingLater) {  // A5: replay
  const Served served({.token = "the secret"});
  const std::string client_nonce(nonce_size, 'c');
  std::string proof;
  {
    const FileDescriptor fd = served.raw();
    Exchange exchange{client_nonce, challenge(fd, client_nonce, true), {}};
    proof = Writer(Op::proof).text(client_proof("the secret", exchange)).finish();
    say(fd, proof);
    EXPECT_EQ(status_of(hear_frame(fd)), Status::ok);
  }
  const FileDescriptor fd = served.raw();
  challenge(fd, client_nonce, true);
  say(fd, proof);
  EXPECT_EQ(status_of(hear_frame(fd)), Status::refused);
  EXPECT_EQ(hear(fd), "");
}

TEST(Handshake, TheServersOwnProofIsNotTheClients) {  // A5: reflection
  const Exchange exchange{std::string(nonce_size, 'a'), std::string(nonce_size, 'b'), "job"};
  EXPECT_NE(client_proof("t", exchange), server_proof("t", exchange));
  EXPECT_NE(client_proof("t", exchange), client_proof("u", exchange));
  const Exchange mirrored{exchange.server_nonce, exchange.client_nonce, "job"};
  EXPECT_NE(client_proof("t", exchange), server_proof("t", mirrored));
  EXPECT_NE(client_proof("t", exchange), client_proof("t", mirrored));
  EXPECT_EQ(client_proof("t", exchange).size(), proof_size);
  EXPECT_EQ(client_proof("", exchange), "");
  // Two connections against each other: the challenge of one, sent to the other as its client's nonce, gives nothing that the first takes.
  const Served served({.token = "the secret"});
  const FileDescriptor one = served.raw();
  const std::string nonce = challenge(one, std::string(nonce_size, 'x'), true);
  const FileDescriptor two = served.raw();
  const std::string second = challenge(two, nonce, true);
  EXPECT_NE(second, nonce);
  say(one, Writer(Op::proof).text(second).finish());
  EXPECT_EQ(status_of(hear_frame(one)), Status::refused);
}

TEST(Handshake, NothingIsServedBeforeTheHandshake) {  // A5
  const Served served({.token = "the secret"});
  const FileDescriptor fd = served.raw();
  say(fd, greeting());
  hear(fd, greeting_size);
  say(fd, Writer(Op::set, 1).text("intruder").text("was here").finish());
  EXPECT_EQ(status_of(hear_frame(fd)), Status::refused);
  EXPECT_EQ(served.server.peek("intruder"), std::nullopt);
}

TEST(Handshake, AnotherVersionIsNamedOnBothSides) {  // R5
  const Served served;
  const FileDescriptor fd = served.raw();
  std::string theirs = greeting();
  theirs[magic.size()] = 77;
  say(fd, theirs);
  EXPECT_EQ(hear(fd), greeting());  // enough for the other side to say it
  // The other way round: a server of another version.
  auto listening = base::try_listen(base::resolve("127.0.0.1", 0).front());
  const auto address = base::local_address(listening.fd.get());
  std::thread other([&] {
    ASSERT_TRUE(base::wait_for(listening.fd.get(), POLLIN, Deadline(30s)));
    const FileDescriptor connected(::accept4(listening.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
    hear(connected, greeting_size);
    say(connected, theirs);
  });
  try {
    connect_tcp({address}, "the store", {}, Deadline(30s));
    ADD_FAILURE() << "connected";
  } catch (const ProtocolError& error) {
    EXPECT_NE(std::string(error.what()).find("(wire 77)"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(fmt::format("(wire {})", wire_version)), std::string::npos) << error.what();
  }
  other.join();
  // And over a connection that was handed over, where nobody shakes hands.
  auto pair = base::make_socket_pair();
  const auto store = connect_fd(std::move(pair.first));
  say(pair.second, theirs);
  EXPECT_THROW(store->get("a", 10s), ProtocolError);
}

TEST(Handshake, AServerOfAnotherProtocolIsNoStore) {
  auto listening = base::try_listen(base::resolve("127.0.0.1", 0).front());
  const auto address = base::local_address(listening.fd.get());
  std::thread other([&] {
    ASSERT_TRUE(base::wait_for(listening.fd.get(), POLLIN, Deadline(30s)));
    const FileDescriptor fd(::accept4(listening.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
    say(fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
    hear(fd, greeting_size);
  });
  EXPECT_THROW(connect_tcp({address}, "the store", {}, Deadline(30s)), ProtocolError);
  other.join();
}

TEST(Handshake, JobsAreToldApart) {  // R4
  const Served served({.job_tag = "job 1"});
  EXPECT_THROW(served.client({.job_tag = "job 2"}), ProtocolError);
  EXPECT_THROW(served.client(), ProtocolError);
  expect_still_well(served, {.job_tag = "job 1"});
}

}  // namespace
}  // namespace unisono::store
