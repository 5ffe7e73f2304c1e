// The stores, each through the same suite, with threads.
#include "unisono/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include <fmt/format.h>

#include "base/socket.h"
#include "covers.h"
#include "etcd_server.h"
#include "store/authentication.h"
#include "store/client.h"
#include "unisono/error.h"
#include "unisono/etcd_store.h"
#include "unit/temporary_file.h"

namespace unisono {
namespace {

using namespace std::chrono_literals;

/// A kind of store: `open` gives a view of the same data each time.
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
  } else if (kind == "encrypted") {
    const std::string token = "a b c";
    const auto tls = store::tls_for(token, base::Environment(std::map<std::string, std::string, std::less<>>{{"UNISONO_TLS", "on"}}));
    const auto server =
        store::serve(store::listen_on(base::resolve("127.0.0.1", 0)), "the store of this test", store::ServerOptions{.token = token, .tls = tls});
    world.kept.push_back(server);
    const base::SocketAddress address = server->addresses()->store;
    world.open = [=] { return store::connect_tcp({address}, "the store of this test", {.token = token, .tls = tls}, base::Deadline(30s)); };
  } else if (kind == "handed_over") {
    auto server = std::make_shared<store::StoreServer>();
    world.kept.push_back(server);
    world.open = [server] {
      auto pair = base::make_socket_pair();
      server->adopt(std::move(pair.first));
      return store::connect_fd(std::move(pair.second));
    };
  } else if (kind == "etcd") {
    // A single server is enough for all tests, each of which has a prefix of its own.
    static const auto server = std::make_unique<testing::EtcdServer>();
    static int number = 0;
    const std::string url = server->url(fmt::format("/stores/{}", number++));
    world.open = [url] { return std::make_shared<EtcdStore>(url); };
  } else {
    auto inner = std::make_shared<MemoryStore>();
    inner->set("outside", "x");
    world.open = [inner] { return std::make_shared<PrefixStore>("job", inner); };
  }
  return world;
}

class StoreTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "etcd") NEEDS_ETCD();
    world_ = make_world(GetParam());
    store_ = world_.open();
  }
  World world_;
  std::shared_ptr<Store> store_;
};

TEST_P(StoreTest, TheStoreSetsAndGetsAnyBytes) {
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

TEST_P(StoreTest, TheStoreKeepsLargeValues) {
  std::string large(3'000'017, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 + i / 251);
  store_->set("large", large);
  EXPECT_EQ(world_.open()->get("large"), large);
  store_->set("after", "1");
  EXPECT_EQ(store_->get("after"), "1");
}

TEST_P(StoreTest, TheStoreRefusesWhatIsOverTheLimitsAndGoesOn) {
  EXPECT_THROW(store_->set("key", std::string((std::size_t{8} << 20) + 1, 'x')), InvalidArgument);
  EXPECT_THROW(store_->set(std::string(9000, 'k'), "x"), InvalidArgument);
  EXPECT_EQ(store_->try_get("key"), std::nullopt);
  store_->set("key", "ok");
  EXPECT_EQ(store_->get("key"), "ok");
}

TEST_P(StoreTest, TheStoreAddsNumbers) {
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

TEST_P(StoreTest, TheStoreComparesAndSets) {
  COVERS("TS-41");
  EXPECT_EQ(store_->compare_set("c", "x", "y"), "");
  EXPECT_EQ(store_->try_get("c"), std::nullopt);
  EXPECT_EQ(store_->compare_set("c", "", "first"), "first");
  EXPECT_EQ(store_->compare_set("c", "", "second"), "first");
  EXPECT_EQ(store_->compare_set("c", "first", "third"), "third");
  EXPECT_EQ(store_->get("c"), "third");
}

TEST_P(StoreTest, TheStoreErasesAndCounts) {
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

TEST_P(StoreTest, ADeadlineThatPassesNamesTheMissingKeys) {
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

TEST_P(StoreTest, TheStoreWaitsUntilAnotherSets) {
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

TEST_P(StoreTest, ManyThreadsShareOneObject) {
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

TEST_P(StoreTest, OneThreadTimesOutWhileAnotherWaitsOn) {
  const auto other = world_.open();
  std::thread patient([&] { EXPECT_EQ(store_->get("slow", 30s), "there"); });
  EXPECT_THROW(store_->get("never", 40ms), Timeout);
  other->set("slow", "there");
  patient.join();
}

INSTANTIATE_TEST_SUITE_P(Kinds, StoreTest, ::testing::Values("memory", "file", "tcp", "tcp6", "encrypted", "handed_over", "prefix", "etcd"),
                         [](const auto& parameter) { return parameter.param; });

}  // namespace
}  // namespace unisono
