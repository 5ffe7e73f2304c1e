// Several requests of one connection wait for keys, and the connection is reset, closed, or never reads: the others notice nothing.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "served_store.h"

namespace unisono::store {
namespace {

constexpr int parked = 8;

/// All of them wait for the same key, or each for one of its own.
void park(const Served& served, const FileDescriptor& fd, const std::string& key, bool same = true) {
  std::string requests;
  for (std::uint64_t i = 0; i < parked; ++i) {
    requests += Writer(Op::get, i + 1).integer(60'000).text(same ? key : fmt::format("{}{}", key, i)).finish();
  }
  const std::size_t before = served.server.counts().waiting;
  say(fd, requests);
  wait_until([&] { return served.server.counts().waiting == before + parked; });
}

/// Closes so that the other side gets ECONNRESET.
void reset(FileDescriptor& fd) {
  const linger at_once{1, 0};
  ASSERT_EQ(::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  fd.reset();
}

TEST(Parked, AClientThatNeverReadsIsClosedAlone) {
  const Served served({.most_unsent = std::size_t{12} << 20});
  const auto good = served.client();
  const FileDescriptor deaf = admitted(served);
  park(served, deaf, "large");
  good->set("large", std::string(std::size_t{8} << 20, 'v'));  // far more than the sockets take
  wait_until([&] { return served.server.counts().connections == 1; });
  EXPECT_EQ(served.server.counts().waiting, 0U);
  EXPECT_EQ(good->get("large", 10s).size(), std::size_t{8} << 20);
  expect_still_well(served);
}

TEST(Parked, OthersThatWaitForTheSameKeyAreAnswered) {
  const Served served({.most_unsent = std::size_t{12} << 20});
  const auto good = served.client();
  const FileDescriptor deaf = admitted(served);
  park(served, deaf, "large");
  const auto waiting_client = served.client({});
  auto waiting = std::async(std::launch::async, [&] { return waiting_client->get("large", 30s).size(); });
  wait_until([&] { return served.server.counts().waiting == parked + 1; });
  good->set("large", std::string(std::size_t{8} << 20, 'v'));
  EXPECT_EQ(waiting.get(), std::size_t{8} << 20);
  wait_until([&] { return served.server.counts().connections == 2; });
}

TEST(Parked, AClientThatIsResetLeavesNothing) {
  const Served served;
  const auto good = served.client();
  for (const bool same : {true, false}) {
    for (int i = 0; i < 20; ++i) {
      FileDescriptor gone = admitted(served);
      park(served, gone, fmt::format("key{}", i), same);
      reset(gone);
      good->set(fmt::format("key{}", i), "v");  // before or after the server has seen it
      wait_until([&] { return served.server.counts().connections == 1; });
      EXPECT_EQ(served.server.counts().waiting, 0U);
      good->erase(fmt::format("key{}", i));
    }
  }
  expect_still_well(served);
}

TEST(Parked, AClientThatClosesWhileItsKeysAreSetLeavesNothing) {
  const Served served;
  const auto good = served.client();
  for (int i = 0; i < 20; ++i) {
    FileDescriptor gone = admitted(served);
    park(served, gone, fmt::format("key{}-", i), false);
    std::thread closing([&] { gone.reset(); });
    for (int key = 0; key < parked; ++key) good->set(fmt::format("key{}-{}", i, key), std::string(100'000, 'v'));
    closing.join();
    wait_until([&] { return served.server.counts().connections == 1; });
    EXPECT_EQ(served.server.counts().waiting, 0U);
  }
  expect_still_well(served);
}

TEST(Parked, RequestsThatRunOutOfTimeEndWithTheirConnection) {
  const Served served({.most_unsent = 1});
  FileDescriptor deaf = admitted(served);
  const std::string long_key(8000, 'k');  // an answer names what is missing
  std::string requests;
  for (std::uint64_t i = 0; i < 1000; ++i) requests += Writer(Op::wait, i + 1).integer(300).integer(1).text(long_key).finish();
  say(deaf, requests);
  wait_until([&] { return served.server.counts().connections == 0; });
  EXPECT_EQ(served.server.counts().waiting, 0U);
  expect_still_well(served);
}

TEST(Parked, WhatAClosedClientLeavesWakesOthersAtOnce) {
  // The answer that closes the deaf one is given while waiters are woken; its will is seen then, too, and not with the next request.
  const Served served({.most_unsent = std::size_t{12} << 20});
  const auto good = served.client();
  const FileDescriptor deaf = admitted(served);
  say(deaf, Writer(Op::will, 99).integer(1).text("left").text("to all").finish());
  EXPECT_EQ(status_of(hear_frame(deaf)), Status::ok);
  park(served, deaf, "large");
  const auto heir = served.client({});
  auto waiting = std::async(std::launch::async, [&] { return heir->get("left", 30s); });
  wait_until([&] { return served.server.counts().waiting == parked + 1; });
  good->set("large", std::string(std::size_t{8} << 20, 'v'));
  EXPECT_EQ(waiting.get(), "to all");
}

}  // namespace
}  // namespace unisono::store
