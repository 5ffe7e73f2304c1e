#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "engine_ranks.h"
#include "unisono/error.h"

// The start of a group: deadlines, addresses, and strangers that reach the port.

namespace unisono::testing {
namespace {

using std::chrono::milliseconds;

TEST(Meeting, AMeetingEndsAtItsDeadlineWhereAMemberDoesNotCome) {
  const auto store = std::make_shared<MemoryStore>();
  const EngineOptions options = options_of(0, 2, store, milliseconds(300));
  EXPECT_THROW(engine_plugin().make(options), Timeout);
}

// It has left its address and died: nobody will connect.
TEST(Meeting, AMeetingEndsAtItsDeadlineWhereAMemberIsGone) {
  const auto store = std::make_shared<MemoryStore>();
  const auto meets = [&](int rank, milliseconds timeout) {
    try {
      engine_plugin().make(options_of(rank, 3, store, timeout));
      return std::string("made");
    } catch (const Timeout& error) {
      return std::string("Timeout");
    } catch (const BackendUnavailable& error) {  // where this rank is the one to connect, it is refused
      return std::string("BackendUnavailable");
    }
  };
  EXPECT_EQ(meets(1, milliseconds(200)), "Timeout");
  const std::string end = meets(0, milliseconds(500));
  EXPECT_TRUE(end == "Timeout" || end == "BackendUnavailable") << end;
}

TEST(Meeting, AMeetingRefusesWhatIsNoAddressOfThisHost) {
  for (const char* address : {"not-an-address", "192.0.2.1", ""}) {
    EngineOptions options = options_of(0, 2, std::make_shared<MemoryStore>());
    options.address = address;
    EXPECT_THROW(engine_plugin().make(options), BackendUnavailable) << address;
  }
}

TEST(Meeting, AMeetingWorksWithIpv6) {
  const int probe = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  const bool there = probe >= 0 && ::bind(probe, reinterpret_cast<sockaddr*>(&loopback), sizeof loopback) == 0;
  ::close(probe);
  if (!there) GTEST_SKIP() << "no ::1 on this machine";
  const auto store = std::make_shared<MemoryStore>();
  std::vector<std::thread> ranks;
  for (int r = 0; r < 3; ++r) {
    ranks.emplace_back([&, r] {
      EngineOptions options = options_of(r, 3, store);
      options.address = "::1";
      const auto engine = engine_plugin().make(options);
      std::int32_t value = r;
      CollectiveCall call;
      call.operation = Operation::all_reduce;
      call.in = call.out = {&value, DType::int32, std::size_t{1}};
      call.count = 1;
      engine->run(call);
      EXPECT_EQ(value, 3);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

/// The ports on which this process listens.
std::vector<sockaddr_in> listening() {
  std::vector<sockaddr_in> found;
  for (int fd = 0; fd < 256; ++fd) {
    int accepts = 0;
    socklen_t size = sizeof accepts;
    sockaddr_in address{};
    socklen_t length = sizeof address;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) != 0 || accepts == 0) continue;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0 && address.sin_family == AF_INET) found.push_back(address);
  }
  return found;
}

class ForeignConnections : public ::testing::TestWithParam<std::string> {};

// Somebody is quicker than the peer and takes its place at the port: an error on all ranks or, where the rank is the one to connect, nothing at all.
TEST_P(ForeignConnections, AConnectionOfAnotherProgramIsNotTakenForAMember) {
  for (int round = 0; round < 3; ++round) {
    const auto store = std::make_shared<MemoryStore>();
    std::vector<std::string> ends(2);
    const auto meets = [&](int rank) {
      try {
        const auto engine = engine_plugin().make(options_of(rank, 2, store, milliseconds(2000)));
        std::int32_t value = rank + 1;
        CollectiveCall call;
        call.operation = Operation::all_reduce;
        call.in = call.out = {&value, DType::int32, std::size_t{1}};
        call.count = 1;
        engine->run(call);
        ends[static_cast<std::size_t>(rank)] = std::string("sum ").append(std::to_string(value));
      } catch (const Error& error) {
        ends[static_cast<std::size_t>(rank)] = "error";
      }
    };
    std::jthread first([&] { meets(0); });
    store->wait(std::vector<std::string>{"0"}, std::chrono::seconds(20));
    const auto ports = listening();
    ASSERT_EQ(ports.size(), 1U);
    EXPECT_EQ(ports[0].sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    const int stranger = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::connect(stranger, reinterpret_cast<const sockaddr*>(&ports[0]), sizeof ports[0]), 0);
    ASSERT_EQ(::send(stranger, GetParam().data(), GetParam().size(), MSG_NOSIGNAL), static_cast<ssize_t>(GetParam().size()));
    std::jthread second([&] { meets(1); });
    first.join();
    second.join();
    ::close(stranger);
    EXPECT_EQ(ends[0], ends[1]);
    EXPECT_TRUE(ends[0] == "error" || ends[0] == "sum 3") << ends[0];
  }
}

/// The head of a message of Gloo's, which says that so many bytes for that slot follow.
std::string message(std::uint64_t opcode, std::uint64_t slot, std::uint64_t length) {
  const std::uint64_t head[] = {48 + length, opcode, slot, 0, length, 0};
  return std::string(reinterpret_cast<const char*>(head), sizeof head);
}

INSTANTIATE_TEST_SUITE_P(Gloo, ForeignConnections,
                         ::testing::Values("", "GET / HTTP/1.1\r\nHost: here\r\n\r\n", std::string(4096, '\xff'),
                                           message(1, 0, 16) + std::string(16, 'x'), message(1, std::uint64_t{0x55} << 40, 1 << 20),
                                           message(0, 0, 16), message(3, std::uint64_t{0x55} << 40, 16)));

}  // namespace
}  // namespace unisono::testing
