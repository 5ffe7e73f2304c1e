// The hand-over of shared memory: A8, only the ranks of the job get it; and that nobody waits in it for a rank that will not come.

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <future>
#include <memory>
#include <string>

#include "base/file_descriptor.h"
#include "store/wrappers.h"
#include "transport/shm/handover.h"
#include "unisono/error.h"
#include "unisono/store.h"

namespace unisono::testing {
namespace {

using namespace std::chrono_literals;
using base::Deadline;
using base::FileDescriptor;

constexpr std::size_t bytes = 8192;

/// The giver's entry in the store: its socket and the secret.
struct Offer {
  std::string name, secret;
};

Offer offer_in(Store& store) {
  const std::string text = store.get("memory", 10s);
  const auto space = text.find(' ');
  return {text.substr(0, space), text.substr(space + 1)};
}

FileDescriptor connect_to(const std::string& name) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) return FileDescriptor();
  return socket;
}

/// The hello of a rank, as it is on the socket.
struct Hello {
  std::array<char, 32> secret{};
  std::int32_t rank = -1;
};

Hello hello_of(const std::string& secret, int rank) {
  Hello hello;
  secret.copy(hello.secret.data(), hello.secret.size());
  hello.rank = rank;
  return hello;
}

/// True if a descriptor came; false if the connection was closed without one, or nothing came for 10 s.
bool gets_memory(const FileDescriptor& socket, const void* hello, std::size_t size) {
  const timeval limit{10, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (::send(socket.get(), hello, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) return false;
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC) <= 0) return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return false;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  const FileDescriptor owned(descriptor);
  return true;
}

/// A giver of memory for two ranks, in a thread.
class Handover : public ::testing::Test {
 protected:
  Handover()
      : giver_(std::async(std::launch::async, [this] { return transport::share_memory(*store_, "memory", 0, 2, bytes, Deadline(20s)); })),
        offer_(offer_in(*store_)) {}
  /// The rank that is meant still gets it, and it is the same memory.
  void expect_rank_one_is_served() {
    const auto mine = transport::share_memory(*store_, "memory", 1, 2, bytes, Deadline(20s));
    const auto given = giver_.get();
    mine.address.get()[100] = std::byte{42};
    EXPECT_EQ(given.address.get()[100], std::byte{42});
    EXPECT_FALSE(store_->try_get("memory").has_value());
    EXPECT_FALSE(connect_to(offer_.name));
  }
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  std::future<transport::SharedMemory> giver_;
  Offer offer_;
};

TEST_F(Handover, A8AWrongSecretGetsNothing) {
  Hello hello = hello_of(offer_.secret, 1);
  hello.secret[7] ^= 1;
  EXPECT_FALSE(gets_memory(connect_to(offer_.name), &hello, sizeof hello));
  expect_rank_one_is_served();
}

TEST_F(Handover, A8ARankThatIsNotOfTheJobGetsNothing) {
  for (const int rank : {-1, 0, 2, 1 << 30}) {
    const Hello hello = hello_of(offer_.secret, rank);
    EXPECT_FALSE(gets_memory(connect_to(offer_.name), &hello, sizeof hello)) << rank;
  }
  expect_rank_one_is_served();
}

TEST_F(Handover, A4AnythingElseGetsNothing) {
  const Hello hello = hello_of(offer_.secret, 1);
  EXPECT_FALSE(gets_memory(connect_to(offer_.name), "GET / HTTP/1.0\r\n\r\n", 18));
  EXPECT_FALSE(gets_memory(connect_to(offer_.name), &hello, sizeof hello - 1));
  expect_rank_one_is_served();
}

// A3: who connects and says nothing holds up nobody.
TEST_F(Handover, A3SilentStrangersHoldUpNobody) {
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(connect_to(offer_.name));
  expect_rank_one_is_served();
}

// A8: the right secret, but another user.
TEST_F(Handover, A8AnotherUserGetsNothing) {
  if (::geteuid() != 0) {
    expect_rank_one_is_served();
    GTEST_SKIP() << "skipped: only root can become another user";
  }
  const Hello hello = hello_of(offer_.secret, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(2);
    const FileDescriptor socket = connect_to(offer_.name);
    if (!socket) ::_exit(3);
    ::_exit(gets_memory(socket, &hello, sizeof hello) ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: it got the memory, 2: it could not change its user, 3: it could not connect";
  expect_rank_one_is_served();
}

// A8: a rank does not take memory from another user's process either.
TEST(HandoverOfOthers, A8AHandoverOfOthersIsNotTaken) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can become another user";
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const std::string name = "unisono-test-" + std::to_string(::getpid());
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(2);
    const FileDescriptor listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 || ::listen(listener.get(), 4) != 0) ::_exit(3);
    if (::write(ready[1], "x", 1) != 1) ::_exit(4);
    while (true) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  ::close(ready[1]);
  MemoryStore store;
  store.set("memory", name + " " + std::string(32, '0'));
  EXPECT_THROW(transport::share_memory(store, "memory", 1, 2, bytes, Deadline(10s)), ProtocolError);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(HandoverInVain, AHandoverInVainNamesTheRankThatDidNotFetch) {
  MemoryStore store;
  try {
    transport::share_memory(store, "memory", 0, 4, bytes, Deadline(300ms));
    FAIL() << "nobody fetched it";
  } catch (const Timeout& error) {
    EXPECT_EQ(error.missing(), (std::vector<int>{1, 2, 3}));
  }
}

// A rank that looks after the others through the store hears of their end while it waits for them, long before the deadline.
TEST(HandoverInVain, AHandoverInVainIsCutShortByAWatchedStore) {
  const auto memory = std::make_shared<MemoryStore>();
  store::WatchedStore watched(memory, [&] {
    if (memory->try_get("memory")) throw PeerFailed("rank 1 will not come", {.culprit = 1});
  });
  EXPECT_THROW(transport::share_memory(watched, "memory", 0, 2, bytes, Deadline(10min)), PeerFailed);
}

TEST(WatchedStore, WaitsAreCutShortAndTimeoutsSayHowLongItWas) {
  const auto memory = std::make_shared<MemoryStore>();
  int looks = 0;
  store::WatchedStore quiet(memory, [&] { ++looks; });
  try {
    static_cast<void>(quiet.get("never", 350ms));
    FAIL() << "there is no such key";
  } catch (const Timeout& error) {
    EXPECT_NE(std::string(error.what()).find("\"never\" within 350 ms"), std::string::npos) << error.what();
  }
  EXPECT_GT(looks, 0);
  const std::vector<std::string> keys{"here", "gone"};
  memory->set("here", "1");
  EXPECT_THROW(quiet.wait(keys, 150ms), Timeout);
  memory->set("gone", "2");
  quiet.wait(keys, 150ms);
  EXPECT_EQ(quiet.get("gone"), "2");
  store::WatchedStore alarmed(memory, [] { throw PeerFailed("somebody is dead", {.culprit = 3}); });
  EXPECT_EQ(alarmed.get("here"), "1");  // what is there is there
  EXPECT_THROW(static_cast<void>(alarmed.get("never", 10min)), PeerFailed);
  EXPECT_THROW(alarmed.wait(std::vector<std::string>{"never"}, 10min), PeerFailed);
}

}  // namespace
}  // namespace unisono::testing
