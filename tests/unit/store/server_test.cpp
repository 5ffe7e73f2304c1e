// The store's server against strangers and against clients that misbehave (A1 … A6), and in the hands of its owner.
#include "store/server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/socket.h"
#include "served_store.h"
#include "store/requests.h"
#include "store/wire.h"
#include "talk.h"
#include "unisono/error.h"

namespace unisono::store {
namespace {

std::size_t resident_kib() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages >> pages;
  return pages * 4;
}

// ---- strangers --------------------------------------------------------------------------------------------------

TEST(UnauthenticatedConnections, RandomBytesDisturbNobody) {  // A1
  const Served served({.token = "the secret"});
  const auto member = served.client({.token = "the secret"});
  std::mt19937 random(20240607);
  for (int i = 0; i < 300; ++i) {
    const FileDescriptor fd = served.raw();
    std::string noise(1 + random() % 5000, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    if (i % 3 == 1) noise = greeting() + noise;
    if (i % 3 == 2) noise = greeting() + Writer(Op::hello).text(std::string(nonce_size, 'n')).text("").integer(1).finish() + noise;
    say(fd, noise);
    if (i % 10 == 0) {
      member->set("i", std::to_string(i));
      EXPECT_EQ(member->get("i", 10s), std::to_string(i));
    }
  }
  wait_until([&] { return served.server.counts().connections == 1; });
}

TEST(UnauthenticatedConnections, ConnectionsOfOtherProtocolsAreDropped) {  // A4
  const Served served;
  for (const std::string probe :
       {"GET / HTTP/1.0\r\n\r\n", "\x16\x03\x01\x02\x00\x01", "SSH-2.0-x\r\n", "*1\r\n$4\r\nPING\r\n", "\r\n\r\n", "UNISTORM........"}) {
    const FileDescriptor fd = served.raw();
    say(fd, probe);
    // A stranger that speaks TLS may be of the job, and is told in TLS's own words that there is none here.
    EXPECT_EQ(hear(fd), probe.starts_with(base::tls_begins) ? base::no_tls_here : "") << probe;
  }
  expect_still_well(served);
}

TEST(UnauthenticatedConnections, ALengthFieldAllocatesNothing) {  // A2
  const Served served({.token = "the secret"});
  const std::size_t before = resident_kib();
  for (const std::string& length : {std::string("\x00\x00\x00\x80", 4), std::string("\xff\xff\xff\x7f", 4), std::string("\xff\xff\xff\xff", 4),
                                    std::string("\x01\x01\x00\x00", 4)}) {
    const FileDescriptor fd = served.raw();
    say(fd, greeting());
    hear(fd, greeting_size);
    say(fd, length);
    EXPECT_EQ(status_of(hear_frame(fd)), Status::refused);
  }
  EXPECT_LT(resident_kib(), before + 8 * 1024);
  expect_still_well(served, {.token = "the secret"});
}

TEST(UnauthenticatedConnections, FieldsLongerThanTheirFrameAreRefused) {  // A2
  const Served served;
  auto pair = base::make_socket_pair();
  served.raw();
  const FileDescriptor fd = served.raw();
  const std::string nonce(nonce_size, 'n');
  challenge(fd, nonce, false);
  say(fd, Writer(Op::proof).text("").finish());
  EXPECT_EQ(status_of(hear_frame(fd)), Status::ok);
  std::string frame = Writer(Op::set, 1).text("key").text("value").finish();
  frame[frame_head + 9] = '\xff';  // the key's length
  frame[frame_head + 12] = '\xff';
  say(fd, frame);
  EXPECT_EQ(status_of(hear_frame(fd)), Status::refused);
  EXPECT_EQ(hear(fd), "");
  expect_still_well(served);
}

TEST(UnauthenticatedConnections, HalfAFrameIsClosedInTimeAndDelaysNobody) {  // A3
  const Served served({.token = "the secret", .handshake_timeout = 300ms});
  std::vector<FileDescriptor> slow;
  for (int i = 0; i < 200; ++i) {
    slow.push_back(served.raw());
    say(slow.back(), std::string_view(greeting()).substr(0, static_cast<std::size_t>(i % 16)));
  }
  expect_still_well(served, {.token = "the secret"});
  EXPECT_LE(served.server.counts().pending, 64U);
  for (const FileDescriptor& fd : slow) EXPECT_EQ(hear(fd), "");
  wait_until([&] { return served.server.counts().pending == 0; });
}

TEST(UnauthenticatedConnections, ManyClientsThatAuthenticateAtOnceAllGetIn) {  // R10
  const Served served({.token = "the secret", .most_pending = 4});
  std::vector<std::thread> all;
  for (int i = 0; i < 32; ++i) {
    all.emplace_back([&, i] {
      const auto client = served.client({.token = "the secret"});
      client->set(fmt::format("{}", i), "x");
    });
  }
  for (auto& thread : all) thread.join();
  EXPECT_EQ(served.server.counts().keys, 32U);
}

TEST(UnauthenticatedConnections, ConnectionsLeaveNoDescriptorsBehind) {  // R10
  const Served served;
  for (int i = 0; i < 1000; ++i) served.raw();
  for (int i = 0; i < 50; ++i) served.client()->set("a", "b");
  wait_until([&] { return served.server.counts().connections == 0; });
}

// ---- members that misbehave -------------------------------------------------------------------------------------

TEST(Members, MembersBreakLimitsForThemselvesOnly) {  // A6
  const Served served({.limits = {.key_bytes = 16, .value_bytes = 1000, .keys = 5, .total_bytes = 3000}});
  const auto bad = served.client();
  const auto good = served.client();
  good->set("mine", "1");
  EXPECT_THROW(bad->set(std::string(17, 'k'), "x"), InvalidArgument);
  EXPECT_THROW(bad->set("key", std::string(1001, 'x')), InvalidArgument);
  for (int i = 0; i < 2; ++i) bad->set(fmt::format("big{}", i), std::string(1000, 'x'));
  EXPECT_THROW(bad->set("big3", std::string(1000, 'x')), InvalidArgument);  // bytes in all
  for (int i = 0; i < 2; ++i) bad->set(fmt::format("small{}", i), "");
  EXPECT_THROW(bad->set("one more", ""), InvalidArgument);  // keys
  EXPECT_EQ(good->get("mine", 10s), "1");
  good->set("mine", "2");
  EXPECT_TRUE(bad->erase("small0"));
  bad->set("one more", "");
  EXPECT_EQ(good->num_keys(), 5);
}

TEST(Members, ARequestLongerThanAnyValueEndsTheirConnection) {  // A6
  const Served served({.limits = {.value_bytes = 1000}});
  const auto good = served.client();
  const FileDescriptor fd = served.raw();
  challenge(fd, std::string(nonce_size, 'n'), false);
  say(fd, Writer(Op::proof).text("").finish());
  hear_frame(fd);
  say(fd, Writer(Op::set, 1).text("huge").text(std::string(3'000'000, 'x')).finish());
  EXPECT_EQ(status_of(hear_frame(fd)), Status::refused);
  good->set("a", "1");
  EXPECT_EQ(good->get("a", 10s), "1");
  EXPECT_EQ(served.server.peek("huge"), std::nullopt);
}

TEST(Members, AMemberThatWaitsForTooMuchIsTold) {  // A6
  const Served served({.most_waiting = 3});
  const auto client = served.client();
  std::vector<std::thread> waiting;
  for (int i = 0; i < 3; ++i) waiting.emplace_back([&] { EXPECT_EQ(client->get("later", 60s), "x"); });
  wait_until([&] { return served.server.counts().waiting == 3; });
  EXPECT_THROW(client->get("other", 60s), InvalidArgument);
  client->set("later", "x");
  for (auto& thread : waiting) thread.join();
  EXPECT_EQ(served.server.counts().waiting, 0U);
}

TEST(Members, AMemberThatAsksWithoutReadingIsDropped) {  // A6
  const Served served({.most_unsent = std::size_t{1} << 20});
  auto pair = base::make_socket_pair();
  const auto good = served.client();
  good->set("value", std::string(100'000, 'v'));
  const FileDescriptor fd = served.raw();
  challenge(fd, std::string(nonce_size, 'n'), false);
  say(fd, Writer(Op::proof).text("").finish());
  hear_frame(fd);
  std::string many;
  for (std::uint64_t i = 0; i < 400; ++i) many += Writer(Op::try_get, i).text("value").finish();
  say(fd, many);
  wait_until([&] { return served.server.counts().connections == 1; });
  EXPECT_EQ(good->get("value", 10s).size(), 100'000U);
}

TEST(Members, AMemberThatLeavesIsNotWaitedFor) {
  const Served served;
  for (int i = 0; i < 20; ++i) {
    const FileDescriptor fd = served.raw();
    challenge(fd, std::string(nonce_size, 'n'), false);
    say(fd, Writer(Op::proof).text("").finish());
    hear_frame(fd);
    say(fd, Writer(Op::get, 1).integer(60000).text("never").finish());
    wait_until([&] { return served.server.counts().waiting == 1; });
    ::shutdown(fd.get(), SHUT_RDWR);
    wait_until([&] { return served.server.counts().waiting == 0; });
  }
}

TEST(Members, MembersLeaveAWill) {
  const Served served;
  const auto heir = served.client();
  {
    const auto mortal = served.client();
    mortal->leave_will({{"superseded", "1"}});
    mortal->leave_will({{"left", "to all"}, {"taken", "again"}});
    heir->set("taken", "before");
    EXPECT_EQ(heir->try_get("left"), std::nullopt);
    mortal->hang_up();
    EXPECT_THROW(mortal->try_get("left"), PeerFailed);
  }
  EXPECT_EQ(heir->get("left", 30s), "to all");
  EXPECT_EQ(heir->get("taken", 30s), "before");
  EXPECT_EQ(heir->try_get("superseded"), std::nullopt);
  {
    const auto orderly = served.client();
    orderly->leave_will({{"never", "set"}});
    orderly->leave_will({});
    EXPECT_THROW(orderly->leave_will(std::vector<std::pair<std::string, std::string>>(17, {"key", ""})), InvalidArgument);
  }
  wait_until([&] { return served.server.counts().connections == 1; });
  EXPECT_EQ(heir->try_get("never"), std::nullopt);
}

TEST(Members, ManyKeysAreReadTogether) {
  const Served served;
  const auto client = served.client();
  std::vector<std::string> keys;
  const auto value_of = [](int i) { return std::string(i % 50 == 0 ? 40'000 : 10, static_cast<char>('a' + i % 26)) + std::to_string(i); };
  for (int i = 0; i < 2500; ++i) {
    keys.push_back("many/" + std::to_string(i));
    if (i % 3 != 0) client->set(keys.back(), value_of(i));
  }
  const auto values = client->try_get_all(keys);  // more keys than a request has, and more bytes than an answer
  ASSERT_EQ(values.size(), keys.size());
  for (int i = 0; i < 2500; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], i % 3 == 0 ? std::nullopt : std::optional(value_of(i))) << i;
  EXPECT_TRUE(client->try_get_all({}).empty());
  EXPECT_EQ(try_get_all(*client, std::vector<std::string>{"many/1", "none"}), (std::vector<std::optional<std::string>>{value_of(1), std::nullopt}));
  PrefixStore under("many", client);  // a store that has no such call
  EXPECT_EQ(try_get_all(under, std::vector<std::string>{"1", "none"}), (std::vector<std::optional<std::string>>{value_of(1), std::nullopt}));
}

TEST(Members, RequestsForManyKeysAreWellFormed) {
  for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{2}, ~std::uint64_t{0}}) {
    const Served served;
    const FileDescriptor fd = served.raw();
    say(fd, greeting());
    say(fd, Writer(Op::try_get_all, 1).integer(count).text("key").finish());
    expect_still_well(served);
  }
}

TEST(Members, RequestsMayComeByteByByte) {  // N8
  const Served served;
  const FileDescriptor fd = served.raw();
  challenge(fd, std::string(nonce_size, 'n'), false);
  std::string all = Writer(Op::proof).text("").finish();
  all += Writer(Op::set, 7).text("k").text("v").finish();
  all += Writer(Op::try_get, 8).text("k").finish();
  for (const char c : all) say(fd, {&c, 1});
  EXPECT_EQ(status_of(hear_frame(fd)), Status::ok);
  EXPECT_EQ(status_of(hear_frame(fd)), Status::ok);
  const std::string frame = hear_frame(fd);
  Reader in(frame);
  in.byte();
  EXPECT_EQ(in.integer(), 8U);
  EXPECT_EQ(in.text(), "v");
}

// ---- the owner --------------------------------------------------------------------------------------------------

TEST(Owner, TheOwnerSeesAndSetsKeys) {
  StoreServer server;
  auto pair = base::make_socket_pair();
  server.adopt(std::move(pair.first));
  const auto client = connect_fd(std::move(pair.second));
  std::thread waiting([&] { EXPECT_EQ(client->get("from owner", 60s), "1"); });
  wait_until([&] { return server.counts().waiting == 1; });
  server.set("from owner", "1");
  waiting.join();
  client->set("from client", "2");
  EXPECT_EQ(server.peek("from client"), "2");
  EXPECT_EQ(server.peek("from nobody"), std::nullopt);
}

TEST(Owner, TheOwnerMayHandOverAConnectionBeforeOrAfterItIsUsed) {
  auto pair = base::make_socket_pair();
  const auto client = connect_fd(std::move(pair.second));  // nobody serves it yet
  StoreServer server;
  std::thread user([&] {
    client->set("a", "1");
    EXPECT_EQ(client->get("a", 30s), "1");
  });
  server.adopt(std::move(pair.first));
  user.join();
}

TEST(Owner, WhatWasAnsweredArrivesAlthoughTheServerGoes) {
  for (int i = 0; i < 20; ++i) {
    auto served = std::make_unique<Served>();
    const auto client = served->client();
    std::thread waiting([&] { EXPECT_EQ(client->get("verdict", 60s).size(), 2'000'000U); });
    wait_until([&] { return served->server.counts().waiting == 1; });
    served->server.set("verdict", std::string(2'000'000, 'v'));
    served.reset();
    waiting.join();
  }
}

TEST(Owner, TheOwnerRunsOutOfDescriptorsAndRecovers) {  // F16
  const Served served;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  std::vector<FileDescriptor> waiting;
  {
    // Connected, and not accepted for want of descriptors.
    FileDescriptor highest(::dup(0));
    const rlimit few{static_cast<rlim_t>(highest.get()) + 4, before.rlim_max};
    highest.reset();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    for (;;) {
      auto fd = served.raw();
      if (!fd) break;
      waiting.push_back(std::move(fd));
    }
    waiting.pop_back();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  }
  waiting.clear();
  expect_still_well(served);
}

}  // namespace
}  // namespace unisono::store
