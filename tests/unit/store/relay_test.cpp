// A store that hands its clients' requests on to another one.
#include "store/relay.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/socket.h"
#include "served_store.h"
#include "unisono/error.h"

namespace unisono::store {
namespace {

/// The store of a job, and the stores of two of its hosts, which hand requests on to it.
class RelayedStores {
 public:
  explicit RelayedStores(const ConnectOptions& options = {}, ServerOptions of_job = {}) : job(std::move(of_job)) {
    for (StoreServer& host : hosts) relay_to(host, job.client(options));
  }
  std::shared_ptr<Client> client(std::size_t host, bool relayed = true) {
    auto client = connect_own(hosts[host], "the job's store");
    if (relayed) {
      EXPECT_TRUE(client->ask_for_relay());
    }
    return client;
  }

  Served job;
  StoreServer hosts[2];
};

TEST(RelayedStore, EveryCallActsOnTheOtherStore) {
  RelayedStores stores({.token = "the secret of the job"}, {.token = "the secret of the job"});
  const auto one = stores.client(0), other = stores.client(1);
  one->set("key", "value");
  EXPECT_EQ(other->get("key", 10s), "value");
  EXPECT_EQ(other->try_get("key"), "value");
  EXPECT_EQ(other->try_get("absent"), std::nullopt);
  EXPECT_EQ(one->add("sum", 3), 3);
  EXPECT_EQ(other->add("sum", 4), 7);
  EXPECT_EQ(one->compare_set("key", "value", "next"), "next");
  EXPECT_EQ(other->compare_set("key", "value", "third"), "next");
  EXPECT_EQ(other->try_get_all(std::vector<std::string>{"sum", "absent", "key"}),
            (std::vector<std::optional<std::string>>{"7", std::nullopt, "next"}));
  one->wait(std::vector<std::string>{"sum", "key"}, 10s);
  EXPECT_EQ(one->num_keys(), 2);
  EXPECT_TRUE(other->erase("key"));
  EXPECT_FALSE(one->erase("key"));
  EXPECT_EQ(stores.job.server.peek("sum"), "7");
  EXPECT_EQ(stores.hosts[0].counts().keys, 0U);
  one->set("text", "no number");
  EXPECT_THROW(other->add("text", 1), InvalidArgument);
}

TEST(RelayedStore, AClientThatAsksForNoRelayUsesTheServersOwnKeys) {
  RelayedStores stores;
  const auto own = stores.client(0, false), relayed = stores.client(0);
  own->set("key", "here");
  relayed->set("key", "there");
  EXPECT_EQ(own->get("key", 10s), "here");
  EXPECT_EQ(relayed->get("key", 10s), "there");
  StoreServer alone;
  EXPECT_FALSE(connect_own(alone, "a store")->ask_for_relay());
}

TEST(RelayedStore, ManyWhoWaitForAKeyAreOneRequestOfTheOtherStore) {
  RelayedStores stores;
  std::vector<std::shared_ptr<Client>> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(stores.client(0));
  std::vector<std::future<std::string>> values;
  for (const auto& client : clients) values.push_back(std::async(std::launch::async, [&client] { return client->get("verdict", 30s); }));
  wait_until([&] { return stores.job.server.counts().waiting == 1; });
  stores.client(1)->set("verdict", "ok");
  for (auto& value : values) EXPECT_EQ(value.get(), "ok");
  EXPECT_EQ(stores.job.server.counts().waiting, 0U);
}

TEST(RelayedStore, AWaitEndsAtItsOwnDeadlineAndNamesTheKey) {
  RelayedStores stores;
  const auto patient = stores.client(0), hasty = stores.client(0);
  auto value = std::async(std::launch::async, [&] { return patient->get("late", 30s); });
  wait_until([&] { return stores.job.server.counts().waiting == 1; });
  for (int i = 0; i < 2; ++i) {
    try {
      hasty->get("late", 50ms);
      ADD_FAILURE() << "nobody has set it";
    } catch (const Timeout& error) {
      EXPECT_NE(std::string(error.what()).find("no value for \"late\" within 50 ms"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(hasty->wait(std::vector<std::string>{"late", "later"}, 50ms), Timeout);
  stores.job.server.set("late", "here");
  EXPECT_EQ(value.get(), "here");
  EXPECT_EQ(hasty->get("late", 10s), "here");
}

// While one client asks again and again for a key, another one changes it by the other host and asks for it then.
TEST(RelayedStore, AValueIsNeverOlderThanTheRequestForIt) {
  RelayedStores stores;
  const auto reader = stores.client(0), asker = stores.client(0), writer = stores.client(1);
  writer->set("number", "0");
  std::atomic<bool> stop{false};
  std::thread reading([&] {
    while (!stop) reader->get("number", 10s);
  });
  for (int i = 1; i <= 500; ++i) {
    writer->set("number", std::to_string(i));
    EXPECT_EQ(asker->get("number", 10s), std::to_string(i));
  }
  stop = true;
  reading.join();
}

TEST(RelayedStore, ClientsSeeTheOtherStoreGo) {
  StoreServer host;
  auto job = std::make_unique<Served>();
  relay_to(host, job->client());
  const auto client = connect_own(host, "the job's store"), idle = connect_own(host, "the job's store");
  ASSERT_TRUE(client->ask_for_relay() && idle->ask_for_relay());
  auto lost = std::async(std::launch::async, [&] { EXPECT_THROW(client->get("never", 30s), PeerFailed); });
  wait_until([&] { return job->server.counts().waiting == 1; });
  job.reset();
  lost.wait();
  EXPECT_THROW(idle->set("key", "value"), PeerFailed);
  const auto after = connect_own(host, "the launcher's store");
  after->set("own", "key");
  EXPECT_EQ(after->get("own", 10s), "key") << "the server itself goes on";
}

TEST(RelayedStore, RequestsThatCountForAConnectionAreRefused) {
  RelayedStores stores;
  const auto client = stores.client(0);
  EXPECT_THROW(client->leave_will({{"goodbye", "1"}}), InvalidArgument);
  EXPECT_THROW(client->ask_for_relay(), InvalidArgument);
  client->set("key", "value");
  EXPECT_EQ(client->get("key", 10s), "value");
}

TEST(RelayedStore, AClientThatEndsLeavesTheOthersTheirAnswers) {
  RelayedStores stores;
  auto gone = stores.client(0);
  const auto stays = stores.client(0);
  auto broken = std::async(std::launch::async, [&] { EXPECT_THROW(gone->get("key", 30s), PeerFailed); });
  wait_until([&] { return stores.job.server.counts().waiting == 1; });
  auto value = std::async(std::launch::async, [&] { return stays->get("key", 30s); });
  gone->hang_up();
  broken.wait();
  stores.job.server.set("key", "value");
  EXPECT_EQ(value.get(), "value");
}

}  // namespace
}  // namespace unisono::store
