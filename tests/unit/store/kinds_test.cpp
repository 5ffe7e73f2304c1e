// The properties of single kinds of stores: files that are torn, links, prefixes, addresses and ports.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "base/socket.h"
#include "unit/temporary_file.h"
#include "unisono/error.h"
#include "unisono/store.h"

namespace unisono {
namespace {

using namespace std::chrono_literals;

TEST(FileStoreTest, ATornRecordIsCutOffByTheNextWriter) {
  const TemporaryFile file;
  FileStore first(file.path());
  first.set("a", "1");
  const auto whole = std::filesystem::file_size(file.path());
  first.set("b", "22222");
  std::filesystem::resize_file(file.path(), std::filesystem::file_size(file.path()) - 3);
  FileStore second(file.path());
  EXPECT_EQ(second.get("a"), "1");
  EXPECT_EQ(second.try_get("b"), std::nullopt);
  second.set("c", "3");
  FileStore third(file.path());
  EXPECT_EQ(third.get("a"), "1");
  EXPECT_EQ(third.get("c"), "3");
  EXPECT_EQ(third.num_keys(), 2);
  EXPECT_GT(std::filesystem::file_size(file.path()), whole);
}

TEST(FileStoreTest, ARecordWithAWrongChecksumIsNotRead) {
  const TemporaryFile file;
  {
    FileStore store(file.path());
    store.set("a", "1");
    store.set("b", "2");
  }
  std::fstream raw(file.path(), std::ios::in | std::ios::out | std::ios::binary);
  raw.seekp(-1, std::ios::end);
  raw.put('X');
  raw.close();
  FileStore store(file.path());
  EXPECT_EQ(store.get("a"), "1");
  EXPECT_EQ(store.try_get("b"), std::nullopt);
}

// In a folder for all a link may be somebody else's; what it leads to must not be written to, nor read.
TEST(FileStoreTest, AFileStoreDoesNotFollowALink) {
  const TemporaryFile file;
  const std::string target = file.path() + ".target", link = file.path() + ".link";
  for (const bool exists : {false, true}) {
    if (exists) std::ofstream(target) << "precious";
    std::filesystem::create_symlink(target, link);
    try {
      FileStore(link).set("key", "value");
      ADD_FAILURE() << "followed";
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find("symbolic link"), std::string::npos) << error.what();
    }
    EXPECT_EQ(std::filesystem::exists(target), exists);
    std::filesystem::remove(link);
  }
  std::filesystem::remove(target);
}

TEST(FileStoreTest, AFileThatIsNoStoreIsRefused) {
  const TemporaryFile file;
  std::ofstream(file.path()) << "this is a letter, not a store";
  EXPECT_THROW(FileStore{file.path()}, InvalidArgument);
  EXPECT_THROW(FileStore("/nonexistent folder/file"), InvalidArgument);
  EXPECT_THROW(FileStore("/tmp"), InvalidArgument);
}

TEST(PrefixStoreTest, PrefixesKeepUsersApart) {
  auto inner = std::make_shared<MemoryStore>();
  PrefixStore a("a", inner);
  PrefixStore b("b", inner);
  a.set("k", "1");
  b.set("k", "2");
  EXPECT_EQ(a.get("k"), "1");
  EXPECT_EQ(b.get("k"), "2");
  EXPECT_EQ(inner->get("a/k"), "1");
  EXPECT_EQ(inner->num_keys(), 2);
  EXPECT_THROW(PrefixStore("a", nullptr), InvalidArgument);
}

TEST(TcpStoreTest, AServerThatGoesIsNamed) {
  auto server = std::make_unique<TcpStore>("127.0.0.1", std::uint16_t{0}, TcpStoreOptions{.is_server = true});
  const std::string place = fmt::format("127.0.0.1:{}", server->port());
  TcpStore client("127.0.0.1", server->port());
  TcpStore other("127.0.0.1", server->port());
  std::thread waiting([&] {
    try {
      client.get("never", 60s);
      ADD_FAILURE() << "get returned";
    } catch (const PeerFailed& error) {
      EXPECT_EQ(error.cause(), PeerFailed::disconnected);
      EXPECT_NE(std::string(error.what()).find(fmt::format("the store at {} is gone", place)), std::string::npos) << error.what();
    }
  });
  server.reset();
  waiting.join();
  EXPECT_THROW(client.set("a", "b"), PeerFailed);
  EXPECT_THROW(other.try_get("a"), PeerFailed);
}

TEST(TcpStoreTest, APortInUseIsNamed) {  // R6
  TcpStore first("127.0.0.1", 0, {.is_server = true});
  try {
    TcpStore second("127.0.0.1", first.port(), {.is_server = true});
    FAIL() << "two servers on one port";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(fmt::format("127.0.0.1:{}", first.port())), std::string::npos) << error.what();
  }
}

TEST(TcpStoreTest, NobodyThereIsATimeoutWithTheAddress) {  // R7
  std::uint16_t port = 0;
  {
    const TcpStore gone("127.0.0.1", 0, {.is_server = true});
    port = gone.port();
  }
  try {
    TcpStore client("127.0.0.1", port, {.timeout = 100ms});
    FAIL() << "connected to nobody";
  } catch (const Timeout& error) {
    EXPECT_NE(std::string(error.what()).find(fmt::format("127.0.0.1:{}", port)), std::string::npos) << error.what();
  }
}

TEST(TcpStoreTest, AClientThatComesFirstWaitsForTheServer) {
  auto listener = base::try_listen(base::resolve("127.0.0.1", 0).front());
  const std::uint16_t port = base::local_address(listener.fd.get()).port();
  listener.fd.reset();
  std::thread early([&] { EXPECT_EQ(TcpStore("127.0.0.1", port, {.timeout = 30s}).get("k", 30s), "v"); });
  TcpStore server("127.0.0.1", port, {.is_server = true});
  server.set("k", "v");
  early.join();
}

TEST(TcpStoreTest, ATcpStoreTakesAName) {
  TcpStore server("localhost", 0, {.is_server = true});
  TcpStore client("localhost", server.port(), {.timeout = 10s});
  client.set("a", "1");
  EXPECT_EQ(server.get("a"), "1");
  EXPECT_THROW(TcpStore("no such host.invalid", 1, {.timeout = 1s}), InvalidArgument);
}

TEST(TcpStoreTest, ATcpStoreAdoptsOnlyAListeningTcpSocket) {
  auto pair = base::make_socket_pair();
  const auto refuses = [](std::uint16_t port, const TcpStoreOptions& options) {
    EXPECT_THROW(TcpStore("127.0.0.1", port, options), InvalidArgument) << options.listen_fd;
    EXPECT_EQ(::fcntl(options.listen_fd, F_GETFD), -1) << "it is closed also if the store refuses it";
  };
  refuses(0, {.is_server = true, .listen_fd = pair.first.release()});
  refuses(1, {.listen_fd = pair.second.release()});
  refuses(0, {.is_server = true, .listen_fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)});  // it does not listen
  refuses(0, {.is_server = true, .listen_fd = -7});
}

TEST(TcpStoreTest, ATcpStoreAdoptsASocketOnlyAtTheGivenAddress) {
  const auto adopts = [](const std::string& host, std::uint16_t other) {
    auto listener = base::try_listen(base::resolve("127.0.0.1", 0).front());
    const std::uint16_t own = base::local_address(listener.fd.get()).port();
    const TcpStore store(host, other == 0 ? 0 : own == other ? other + 1 : other, {.is_server = true, .listen_fd = listener.fd.release()});
    return store.port() == own;
  };
  EXPECT_TRUE(adopts("127.0.0.1", 0));
  EXPECT_TRUE(adopts("localhost", 0));
  EXPECT_THROW(adopts("127.0.0.1", 1), InvalidArgument);
  EXPECT_THROW(adopts("127.0.0.2", 0), InvalidArgument);
}

}  // namespace
}  // namespace unisono
