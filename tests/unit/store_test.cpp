// The stores, each through the same suite, with threads and with processes.
#include "unisono/store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <fmt/format.h>

#include "covers.h"
#include "base/socket.h"
#include "store/client.h"
#include "store/serve.h"
#include "unisono/error.h"

namespace unisono {
namespace {

using namespace std::chrono_literals;

/// A file name of its own for each test, removed at the end.
class TemporaryFile {
 public:
  TemporaryFile() {
    std::string name = (std::filesystem::temp_directory_path() / "unisono_store_XXXXXX").string();
    ::close(::mkstemp(name.data()));
    path_ = name;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// One kind of store: `open` gives a view of the same data each time.
struct World {
  std::function<std::shared_ptr<Store>()> open;
  std::vector<std::shared_ptr<void>> kept;
};

World make_world(const std::string& kind) {
  World world;
  if (kind == "memory") {
    auto store = std::make_shared<MemoryStore>();
    world.open = [store] { return store; };
  } else if (kind == "file") {
    auto file = std::make_shared<TemporaryFile>();
    world.kept.push_back(file);
    world.open = [file] { return std::make_shared<FileStore>(file->path()); };
  } else if (kind == "tcp") {
    auto server = std::make_shared<TcpStore>("127.0.0.1", std::uint16_t{0}, TcpStoreOptions{.is_server = true});
    world.kept.push_back(server);
    const std::uint16_t port = server->port();
    world.open = [port] { return std::make_shared<TcpStore>("127.0.0.1", port); };
  } else if (kind == "tcp6") {
    auto server = std::make_shared<TcpStore>("::1", std::uint16_t{0}, TcpStoreOptions{.is_server = true, .token = "a b c"});
    world.kept.push_back(server);
    const std::uint16_t port = server->port();
    world.open = [port] { return std::make_shared<TcpStore>("::1", port, TcpStoreOptions{.token = "a b c"}); };
  } else if (kind == "handed_over") {
    auto server = std::make_shared<store::StoreServer>();
    world.kept.push_back(server);
    world.open = [server] {
      auto pair = base::make_socket_pair();
      server->adopt(std::move(pair.first));
      return store::connect_fd(std::move(pair.second));
    };
  } else {
    auto inner = std::make_shared<MemoryStore>();
    inner->set("outside", "x");
    world.open = [inner] { return std::make_shared<PrefixStore>("job", inner); };
  }
  return world;
}

class StoreTest : public testing::TestWithParam<std::string> {
 protected:
  World world_ = make_world(GetParam());
  std::shared_ptr<Store> store_ = world_.open();
};

TEST_P(StoreTest, sets_and_gets_any_bytes) {
  COVERS("TS-41");
  const std::string bytes("\0\n\xff binary \0 end", 16);
  store_->set("key", bytes);
  EXPECT_EQ(store_->get("key"), bytes);
  EXPECT_EQ(world_.open()->get("key"), bytes);
  store_->set("key", "");
  EXPECT_EQ(store_->get("key"), "");
  EXPECT_EQ(store_->try_get("key"), "");
  EXPECT_EQ(store_->try_get("other"), std::nullopt);
  store_->set(bytes, "2");
  EXPECT_EQ(store_->get(bytes), "2");
}

TEST_P(StoreTest, keeps_large_values) {
  std::string large(3'000'017, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 + i / 251);
  store_->set("large", large);
  EXPECT_EQ(world_.open()->get("large"), large);
  store_->set("after", "1");
  EXPECT_EQ(store_->get("after"), "1");
}

TEST_P(StoreTest, refuses_what_is_over_the_limits_and_goes_on) {
  EXPECT_THROW(store_->set("key", std::string((std::size_t{8} << 20) + 1, 'x')), InvalidArgument);
  EXPECT_THROW(store_->set(std::string(9000, 'k'), "x"), InvalidArgument);
  EXPECT_EQ(store_->try_get("key"), std::nullopt);
  store_->set("key", "ok");
  EXPECT_EQ(store_->get("key"), "ok");
}

TEST_P(StoreTest, adds) {
  COVERS("TS-41");
  EXPECT_EQ(store_->add("n", 5), 5);
  EXPECT_EQ(store_->add("n", -12), -7);
  EXPECT_EQ(store_->get("n"), "-7");
  EXPECT_EQ(store_->add("n", 0), -7);
  store_->set("n", "100");
  EXPECT_EQ(store_->add("n", 1), 101);
  store_->set("text", "12 ducks");
  EXPECT_THROW(store_->add("text", 1), InvalidArgument);
  EXPECT_EQ(store_->get("text"), "12 ducks");
  store_->set("most", "9223372036854775807");
  EXPECT_THROW(store_->add("most", 1), InvalidArgument);
}

TEST_P(StoreTest, compares_and_sets) {
  COVERS("TS-41");
  EXPECT_EQ(store_->compare_set("c", "x", "y"), "");
  EXPECT_EQ(store_->try_get("c"), std::nullopt);
  EXPECT_EQ(store_->compare_set("c", "", "first"), "first");
  EXPECT_EQ(store_->compare_set("c", "", "second"), "first");
  EXPECT_EQ(store_->compare_set("c", "first", "third"), "third");
  EXPECT_EQ(store_->get("c"), "third");
}

TEST_P(StoreTest, erases_and_counts) {
  COVERS("TS-41");
  const std::int64_t before = store_->num_keys();
  store_->set("a", "1");
  store_->set("b", "2");
  store_->set("b", "3");
  EXPECT_EQ(store_->num_keys(), before + 2);
  EXPECT_TRUE(store_->erase("a"));
  EXPECT_FALSE(store_->erase("a"));
  EXPECT_EQ(store_->num_keys(), before + 1);
  EXPECT_EQ(world_.open()->try_get("a"), std::nullopt);
}

TEST_P(StoreTest, a_deadline_that_passes_names_the_missing_keys) {
  COVERS("TS-41");
  store_->set("here", "1");
  const std::vector<std::string> keys = {"here", "absent one", "absent two"};
  try {
    store_->wait(keys, 30ms);
    FAIL() << "wait returned";
  } catch (const Timeout& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("absent one"), std::string::npos) << text;
    EXPECT_NE(text.find("absent two"), std::string::npos) << text;
    EXPECT_EQ(text.find("\"here\""), std::string::npos) << text;
    EXPECT_NE(text.find("30 ms"), std::string::npos) << text;
  }
  EXPECT_THROW(store_->get("absent one", 0ms), Timeout);
  EXPECT_EQ(store_->get("here", 0ms), "1");
  store_->set_timeout(20ms);
  EXPECT_EQ(store_->timeout(), 20ms);
  EXPECT_THROW(store_->get("absent one"), Timeout);
}

TEST_P(StoreTest, waits_until_another_sets) {
  COVERS("TS-41");
  const auto other = world_.open();
  std::atomic<int> woken = 0;
  std::thread getter([&] {
    EXPECT_EQ(store_->get("later", 30s), "v");
    ++woken;
  });
  std::thread waiter([&] {
    store_->wait(std::vector<std::string>{"later", "counter", "cas"}, 30s);
    ++woken;
  });
  other->set("later", "v");
  getter.join();
  EXPECT_EQ(woken, 1);
  other->add("counter", 1);
  other->compare_set("cas", "", "z");
  waiter.join();
  EXPECT_EQ(woken, 2);
}

TEST_P(StoreTest, many_threads_share_one_object) {
  constexpr int threads = 6;
  constexpr int rounds = 40;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      for (int i = 0; i < rounds; ++i) {
        const std::string mine = fmt::format("r{}t{}", i, t);
        store_->add("sum", t + 1);
        store_->set(mine, std::to_string(t * 1000 + i));
        const int next = (t + 1) % threads;
        EXPECT_EQ(store_->get(fmt::format("r{}t{}", i, next), 60s), std::to_string(next * 1000 + i));
      }
    });
  }
  for (auto& thread : all) thread.join();
  EXPECT_EQ(store_->get("sum"), std::to_string(rounds * threads * (threads + 1) / 2));
}

TEST_P(StoreTest, one_thread_times_out_while_another_waits_on) {
  const auto other = world_.open();
  std::thread patient([&] { EXPECT_EQ(store_->get("slow", 30s), "there"); });
  EXPECT_THROW(store_->get("never", 40ms), Timeout);
  other->set("slow", "there");
  patient.join();
}

INSTANTIATE_TEST_SUITE_P(Kinds, StoreTest, testing::Values("memory", "file", "tcp", "tcp6", "handed_over", "prefix"),
                         [](const auto& parameter) { return parameter.param; });

// ---- processes ------------------------------------------------------------------------------------------------

/// Runs `body(i)` in n children; their exit codes must be 0.
void in_children(int n, const std::function<bool(int)>& body) {
  std::vector<pid_t> children;
  for (int i = 0; i < n; ++i) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      bool good = false;
      try {
        good = body(i);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "child %d: %s\n", i, error.what());
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  }
}

bool meet_and_count(Store& store, int i, int n) {
  for (int round = 0; round < 50; ++round) store.add("count", i + 1);
  store.set(fmt::format("done{}", i), "1");
  std::vector<std::string> keys;
  for (int other = 0; other < n; ++other) keys.push_back(fmt::format("done{}", other));
  store.wait(keys, 60s);
  return store.get("count") == std::to_string(50 * n * (n + 1) / 2);
}

TEST(StoreProcesses, share_a_file) {
  const TemporaryFile file;
  in_children(4, [&](int i) {
    FileStore store(file.path());
    return meet_and_count(store, i, 4);
  });
}

TEST(StoreProcesses, a_child_of_fork_may_go_on_with_the_parents_file_store) {
  const TemporaryFile file;
  FileStore store(file.path());
  store.set("from parent", "1");
  in_children(3, [&](int i) { return store.get("from parent") == "1" && meet_and_count(store, i, 3); });
  EXPECT_EQ(store.get("count"), "300");
}

TEST(StoreProcesses, share_a_tcp_server) {
  auto listener = base::try_listen(base::resolve("127.0.0.1", 0).front());
  ASSERT_TRUE(listener.fd);
  const std::uint16_t port = base::local_address(listener.fd.get()).port();
  // Child 0 serves on the socket that was bound before, as a launcher would. Sockets of the library are kept from children; this one is released.
  const base::FileDescriptor bound(listener.fd.release());
  in_children(4, [&](int i) {
    TcpStore store("127.0.0.1", port, {.is_server = i == 0, .listen_fd = i == 0 ? bound.get() : -1});
    const bool good = meet_and_count(store, i, 4);
    if (i == 0) {
      store.wait(std::vector<std::string>{"left1", "left2", "left3"}, 60s);
    } else {
      store.set(fmt::format("left{}", i), "1");
    }
    return good;
  });
}

TEST(StoreProcesses, a_child_of_fork_is_refused_the_parents_connection) {
  TcpStore store("127.0.0.1", 0, {.is_server = true});
  in_children(1, [&](int) {
    try {
      store.set("a", "b");
      return false;
    } catch (const NotInitialized&) {
      return true;
    }
  });
  store.set("a", "c");
  EXPECT_EQ(store.get("a"), "c");
}

// ---- what only one kind has -------------------------------------------------------------------------------------

TEST(FileStoreTest, a_torn_record_is_cut_off_by_the_next_writer) {
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

TEST(FileStoreTest, a_record_with_a_wrong_checksum_is_not_read) {
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
TEST(FileStoreTest, does_not_follow_a_link) {
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

TEST(FileStoreTest, refuses_what_is_no_store) {
  const TemporaryFile file;
  std::ofstream(file.path()) << "this is a letter, not a store";
  EXPECT_THROW(FileStore{file.path()}, InvalidArgument);
  EXPECT_THROW(FileStore("/nonexistent folder/file"), InvalidArgument);
  EXPECT_THROW(FileStore("/tmp"), InvalidArgument);
}

TEST(PrefixStoreTest, keeps_users_apart) {
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

TEST(TcpStoreTest, a_server_that_goes_is_named) {
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

TEST(TcpStoreTest, a_port_in_use_is_named) {  // R6
  TcpStore first("127.0.0.1", 0, {.is_server = true});
  try {
    TcpStore second("127.0.0.1", first.port(), {.is_server = true});
    FAIL() << "two servers on one port";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(fmt::format("127.0.0.1:{}", first.port())), std::string::npos) << error.what();
  }
}

TEST(TcpStoreTest, nobody_there_is_a_timeout_with_the_address) {  // R7
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

TEST(TcpStoreTest, a_client_that_comes_first_waits_for_the_server) {
  auto listener = base::try_listen(base::resolve("127.0.0.1", 0).front());
  const std::uint16_t port = base::local_address(listener.fd.get()).port();
  listener.fd.reset();
  std::thread early([&] { EXPECT_EQ(TcpStore("127.0.0.1", port, {.timeout = 30s}).get("k", 30s), "v"); });
  TcpStore server("127.0.0.1", port, {.is_server = true});
  server.set("k", "v");
  early.join();
}

TEST(TcpStoreTest, takes_a_name) {
  TcpStore server("localhost", 0, {.is_server = true});
  TcpStore client("localhost", server.port(), {.timeout = 10s});
  client.set("a", "1");
  EXPECT_EQ(server.get("a"), "1");
  EXPECT_THROW(TcpStore("no such host.invalid", 1, {.timeout = 1s}), InvalidArgument);
}

TEST(TcpStoreTest, adopts_only_a_listening_tcp_socket) {
  auto pair = base::make_socket_pair();
  EXPECT_THROW(TcpStore("127.0.0.1", 0, {.is_server = true, .listen_fd = pair.first.get()}), InvalidArgument);
  EXPECT_THROW(TcpStore("127.0.0.1", 1, {.listen_fd = 0}), InvalidArgument);
}

}  // namespace
}  // namespace unisono
