// The texts of all nodes: few requests of each node, and no wait without an end.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <thread>

#include <fmt/format.h>

#include "launch/hosts/node_exchange.h"
#include "store/requests.h"
#include "store/served_keys.h"
#include "unisono/error.h"

namespace unisono::launcher {
namespace {

using namespace std::chrono_literals;
using base::Deadline;

/// Counts the requests that a node makes of the store of all.
class Counting final : public Store, public store::BatchedReads {
 public:
  explicit Counting(Store& inner) : inner_(inner) {}
  void set(std::string_view key, std::string_view value) override { asked().set(key, value); }
  std::string get(std::string_view key, std::optional<Milliseconds> timeout) override { return asked().get(key, timeout); }
  std::optional<std::string> try_get(std::string_view key) override { return asked().try_get(key); }
  std::vector<std::optional<std::string>> try_get_all(std::span<const std::string> keys) override { return store::try_get_all(asked(), keys); }
  std::int64_t add(std::string_view key, std::int64_t amount) override { return asked().add(key, amount); }
  void wait(std::span<const std::string> keys, std::optional<Milliseconds> timeout) override { asked().wait(keys, timeout); }
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override {
    return asked().compare_set(key, expected, desired);
  }
  bool erase(std::string_view key) override { return asked().erase(key); }
  std::int64_t num_keys() override { return asked().num_keys(); }
  int requests() const { return requests_; }

 private:
  Store& asked() {
    ++requests_;
    return inner_;
  }
  Store& inner_;
  int requests_ = 0;
};

TextsOfNodes texts_of(int nodes, std::string prefix = "texts") {
  TextsOfNodes texts{std::move(prefix), std::vector<int>(static_cast<std::size_t>(nodes))};
  std::iota(texts.nodes.begin(), texts.nodes.end(), 0);
  return texts;
}

std::string text_of(int node, std::size_t bytes) { return fmt::format("{}:{}", node, std::string(bytes, static_cast<char>('a' + node % 26))); }

/// All nodes but the first write their texts, then the first gathers, then the others: no wait of theirs is repeated. Returns their requests.
std::vector<int> requests_of_all(int nodes, std::size_t bytes) {
  MemoryStore store;
  const TextsOfNodes texts = texts_of(nodes);
  for (int node = 1; node < nodes; ++node) store.set(texts.key(node), text_of(node, bytes));
  std::vector<int> requests;
  for (int node = 0; node < nodes; ++node) {
    Counting counted(store);
    const auto all = gather_texts(counted, texts, node, text_of(node, bytes), Deadline(1min), [] { return true; });
    EXPECT_TRUE(all);
    for (int other = 0; other < nodes; ++other) EXPECT_EQ(all->at(static_cast<std::size_t>(other)), text_of(other, bytes)) << node;
    requests.push_back(counted.requests());
  }
  return requests;
}

TEST(TextsOfNodes, TextsTakeAFewRequestsOfEachNode) {
  for (const int nodes : {1, 2, 3, 100}) {
    const std::vector<int> requests = requests_of_all(nodes, 20);
    EXPECT_EQ(requests[0], 4) << nodes;  // its own, the wait, all of them, and what it writes of all
    for (int node = 1; node < nodes; ++node) EXPECT_EQ(requests[static_cast<std::size_t>(node)], 2) << nodes;
  }
}

// A store takes no value of more than 8 MiB, and what the nodes say together may be longer.
TEST(TextsOfNodes, LongTextsAreReadByEachNode) {
  const std::vector<int> requests = requests_of_all(3, std::size_t{3} << 20);
  EXPECT_EQ(requests[0], 4);
  EXPECT_EQ(requests[1], 3);
  EXPECT_EQ(requests[2], 3);
}

TEST(TextsOfNodes, TextsOfSomeNodesComeInTheirOrderWhoeverComesFirst) {
  MemoryStore store;
  const TextsOfNodes texts{"some", {7, 2, 5}};
  std::map<int, std::vector<std::string>> got;
  for (const int node : texts.nodes) got[node];
  std::vector<std::thread> threads;
  for (auto& [node, all] : got) {
    threads.emplace_back([&store, &texts, node = node, &all = all] {
      all = gather_texts(store, texts, node, std::to_string(node), Deadline(1min), [] { return true; }).value();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& [node, all] : got) EXPECT_EQ(all, (std::vector<std::string>{"7", "2", "5"})) << node;
}

TEST(TextsOfNodes, TextsEndAtTheDeadlineOrWhenTheyAreGivenUp) {
  MemoryStore store;
  for (const int node : {0, 1}) {
    EXPECT_THROW(gather_texts(store, texts_of(3), node, "", Deadline(10ms), [] { return true; }), Timeout) << node;
    EXPECT_FALSE(gather_texts(store, texts_of(3), node, "", Deadline(1min), [] { return false; })) << node;
  }
}

TEST(TextsOfNodes, TextsOfAnotherNumberOfNodesAreRefused) {
  MemoryStore store;
  store.set("texts/1", "");
  ASSERT_TRUE(gather_texts(store, texts_of(2), 0, "", Deadline(1min), [] { return true; }));
  EXPECT_THROW(gather_texts(store, texts_of(3), 1, "", Deadline(1min), [] { return true; }), ProtocolError);
}

// ---- a request that waits for many keys -------------------------------------------------------------------------

TEST(Waiters, WaitersLookAtEachOfManyKeysOnceAndAtTheEndAgain) {
  constexpr std::size_t keys = 1000;
  store::Table table;
  store::Waiters waiters;
  store::Waiter waiter;
  waiter.expires = base::Clock::time_point::max();
  for (std::size_t i = 0; i < keys; ++i) waiter.keys.push_back(std::to_string(i));
  waiters.park(waiter, table);
  for (std::size_t i = 0; i < keys; ++i) {
    table.set(std::to_string(i), "here");
    EXPECT_EQ(waiters.complete(std::to_string(i), table).has_value(), i + 1 == keys) << i;
  }
  EXPECT_LE(waiters.looks(), 3 * keys);
}

TEST(Waiters, WaitersWaitAgainForAKeyThatWasErased) {
  store::Table table;
  store::Waiters waiters;
  store::Waiter waiter;
  waiter.expires = base::Clock::time_point::max();
  waiter.keys = {"a", "b", "c"};
  waiters.park(waiter, table);
  const auto completes = [&](const std::string& key) {
    table.set(key, "here");
    return waiters.complete(key, table).has_value();
  };
  EXPECT_FALSE(completes("a"));
  EXPECT_FALSE(completes("b"));
  table.erase("a");
  EXPECT_FALSE(completes("c"));
  EXPECT_TRUE(completes("a"));
  EXPECT_EQ(waiters.size(), 0U);
}

}  // namespace
}  // namespace unisono::launcher
