// The codes of a store's frames: whatever somebody on the way does with them, nothing that was not sent so is believed.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "served_store.h"
#include "unisono/error.h"

namespace unisono::store {
namespace {

using base::NumberedCodes;

constexpr std::size_t handshake_frames = 2;  // of each side

/// Sits between a client and the server, and passes on what `change` makes of each frame behind the handshake. Frames are counted from 0 in each
/// direction.
class Between {
 public:
  enum class From { client, server };
  /// What is passed on instead of the frame; none: the connection is cut.
  using Change = std::function<std::optional<std::string>(From from, std::size_t number, const std::string& frame)>;

  Between(const Served& served, Change change) : change_(std::move(change)) {
    listening_ = std::move(base::try_listen(base::resolve("127.0.0.1", 0).front()).fd);
    address_ = base::local_address(listening_.get());
    thread_ = std::jthread([this, &served] { relay(served); });
  }
  std::shared_ptr<Client> client() const { return connect_tcp({address_}, "the store beyond", {.token = token}, Deadline(30s)); }

  static constexpr const char* token = "the secret of this test";

 private:
  struct Side {
    FileDescriptor fd;
    std::string bytes = {};  ///< received, not passed on
    bool has_greeted = false;
    std::size_t frames = 0;
  };

  void relay(const Served& served) {
    if (!base::wait_for(listening_.get(), POLLIN, Deadline(30s))) return;
    Side client{FileDescriptor(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC))}, server{served.raw()};
    for (;;) {
      pollfd both[] = {{client.fd.get(), POLLIN, 0}, {server.fd.get(), POLLIN, 0}};
      if (::poll(both, 2, 30000) <= 0) return;
      if (both[0].revents != 0 && !pass(client, server, From::client)) return;
      if (both[1].revents != 0 && !pass(server, client, From::server)) return;
    }
  }
  bool pass(Side& side, Side& other, From from) {
    char chunk[4096];
    const ssize_t n = ::recv(side.fd.get(), chunk, sizeof chunk, 0);
    if (n <= 0) return false;
    side.bytes.append(chunk, static_cast<std::size_t>(n));
    while (const auto part = next(side)) {
      const bool is_sealed = side.frames > handshake_frames;
      const auto passed = is_sealed ? change_(from, side.frames - handshake_frames - 1, *part) : part;
      if (!passed) return false;
      say(other.fd, *passed);
    }
    return true;
  }
  static std::optional<std::string> next(Side& side) {
    std::size_t size = greeting_size;
    if (side.has_greeted) {
      if (side.bytes.size() < frame_head) return std::nullopt;
      size = frame_head + base::load_little_endian<std::uint32_t>(side.bytes.data());
      if (side.frames >= handshake_frames) size += 2 * NumberedCodes::size;
    }
    if (side.bytes.size() < size) return std::nullopt;
    side.frames += std::exchange(side.has_greeted, true) ? 1 : 0;
    std::string part = side.bytes.substr(0, size);
    side.bytes.erase(0, size);
    return part;
  }

  Change change_;
  FileDescriptor listening_;
  base::SocketAddress address_;
  std::jthread thread_;
};

using From = Between::From;

ServerOptions with_token() { return {.token = Between::token}; }

/// The call fails because of what came, and says where.
template <class Call>
void expect_refused(Call&& call, std::string_view why) {
  try {
    call();
    ADD_FAILURE() << "it was believed";
  } catch (const ProtocolError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("the store beyond"), std::string::npos) << what;
    EXPECT_NE(what.find(why), std::string::npos) << what;
  }
}
constexpr std::string_view of_request = "a request was changed on the way", of_answer = "an answer was changed on the way";

TEST(StoreCodes, FramesThatAreLeftAlonePass) {
  const Served served(with_token());
  std::atomic<std::size_t> frames{0};
  const Between between(served, [&](From, std::size_t, const std::string& frame) {
    ++frames;
    return frame;
  });
  const auto client = between.client();
  for (int i = 0; i < 20; ++i) client->set(fmt::format("key {}", i), std::string(static_cast<std::size_t>(i) * 1000, 'v'));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client->get(fmt::format("key {}", i), 10s), std::string(static_cast<std::size_t>(i) * 1000, 'v'));
  EXPECT_EQ(frames, 80U);
}

TEST(StoreCodes, AChangedByteOfARequestIsNoticed) {
  const Served served(with_token());
  const std::size_t length = Writer(Op::set, 1).text("key").text("value").finish().size() + 2 * NumberedCodes::size;
  for (std::size_t place = 0; place < length; ++place) {
    const Between between(served, [place](From from, std::size_t, std::string frame) {
      if (from == From::client) frame[place] = static_cast<char>(frame[place] ^ 1);
      return frame;
    });
    const auto client = between.client();
    SCOPED_TRACE(place);
    expect_refused([&] { client->set("key", "value"); }, of_request);
    expect_refused([&] { static_cast<void>(client->num_keys()); }, of_request);
    EXPECT_EQ(served.server.counts().keys, 0U);
  }
}

TEST(StoreCodes, AChangedByteOfAnAnswerIsNoticed) {
  Served served(with_token());
  served.server.set("key", "value");
  const std::size_t length = Writer(Status::ok, 1).text("value").finish().size() + 2 * NumberedCodes::size;
  for (std::size_t place = 0; place < length; ++place) {
    const Between between(served, [place](From from, std::size_t, std::string frame) {
      if (from == From::server) frame[place] = static_cast<char>(frame[place] ^ 0x80);
      return frame;
    });
    const auto client = between.client();
    SCOPED_TRACE(place);
    expect_refused([&] { static_cast<void>(client->get("key", 30s)); }, of_answer);
    expect_refused([&] { static_cast<void>(client->get("key", 30s)); }, of_answer);
  }
}

TEST(StoreCodes, ARepeatedRequestCountsOnce) {
  const Served served(with_token());
  const Between between(served, [](From from, std::size_t, const std::string& frame) { return from == From::client ? frame + frame : frame; });
  const auto client = between.client();
  EXPECT_EQ(client->add("counter", 1), 1);
  expect_refused([&] { client->add("counter", 1); }, of_request);
  EXPECT_EQ(served.server.peek("counter"), "1");
}

TEST(StoreCodes, ARepeatedAnswerIsNoticed) {
  const Served served(with_token());
  const Between between(served, [](From from, std::size_t, const std::string& frame) { return from == From::server ? frame + frame : frame; });
  const auto client = between.client();
  EXPECT_EQ(client->add("counter", 1), 1);
  expect_refused([&] { client->add("counter", 1); }, of_answer);
}

// The second of two requests comes first.
TEST(StoreCodes, SwappedRequestsAreNoticed) {
  const Served served(with_token());
  std::string held;
  const Between between(served, [&](From from, std::size_t number, const std::string& frame) -> std::string {
    if (from == From::server || number > 1) return frame;
    if (number == 1) return frame + held;
    held = frame;
    return {};
  });
  const auto client = between.client();
  const auto set = [&](const char* key) { expect_refused([&] { client->set(key, "value"); }, of_request); };
  auto one = std::async(std::launch::async, set, "one");
  auto other = std::async(std::launch::async, set, "other");
  one.wait();
  other.wait();
  EXPECT_EQ(served.server.counts().keys, 0U);
}

TEST(StoreCodes, ARequestThatWasLeftOutIsNoticedWithTheNext) {
  const Served served(with_token());
  const Between between(
      served, [](From from, std::size_t number, const std::string& frame) { return from == From::client && number == 0 ? std::string() : frame; });
  const auto client = between.client();
  auto first = std::async(std::launch::async, [&] { expect_refused([&] { client->set("first", "value"); }, of_request); });
  expect_refused([&] { client->set("second", "value"); }, of_request);
  first.wait();
  EXPECT_EQ(served.server.counts().keys, 0U);
}

// Keys differ by direction, so what a side has sent cannot be sent back to it.
TEST(StoreCodes, AFrameThatIsSentBackIsNoticed) {
  const Served served(with_token());
  std::string asked;
  const Between between(served, [&](From from, std::size_t, const std::string& frame) {
    if (from == From::client) asked = frame;
    return from == From::client ? frame : asked;
  });
  const auto client = between.client();
  expect_refused([&] { client->set("key", "value"); }, of_answer);
}

TEST(StoreCodes, ARequestThatWasCutOffSetsNothing) {
  const Served served(with_token());
  std::atomic<int> cuts{0};
  const Between between(served, [&](From from, std::size_t, const std::string& frame) -> std::optional<std::string> {
    if (from == From::server) return frame;
    if (cuts++ > 0) return std::nullopt;
    return frame.substr(0, frame.size() - 1);
  });
  const auto client = between.client();
  auto first = std::async(std::launch::async, [&] { EXPECT_THROW(client->set("first", "value"), PeerFailed); });
  wait_until([&] { return cuts > 0; });
  EXPECT_THROW(client->set("second", "value"), PeerFailed);
  first.wait();
  EXPECT_EQ(served.server.counts().keys, 0U);
}

// A request of which nothing was sent has used no number.
TEST(StoreCodes, AFrameThatWasTakenBackIsNotMissed) {
  const std::string key(32, 'k');
  FrameSealer sealer(key);
  FrameOpener opener(key);
  FrameBuffer in;
  FrameOpener::Fault fault = FrameOpener::Fault::none;
  in.append(sealer.seal(Writer(Op::num_keys, 1).finish()));
  static_cast<void>(sealer.seal(Writer(Op::num_keys, 2).finish()));
  sealer.take_back();
  in.append(sealer.seal(Writer(Op::num_keys, 3).finish()));
  for (const std::uint64_t id : {1, 3}) {
    const auto frame = opener.take(in, 100, fault);
    ASSERT_TRUE(frame);
    Reader reader(*frame);
    reader.byte();
    EXPECT_EQ(reader.integer(), id);
  }
  EXPECT_FALSE(opener.take(in, 100, fault));
  EXPECT_EQ(fault, FrameOpener::Fault::none);
}

}  // namespace
}  // namespace unisono::store
