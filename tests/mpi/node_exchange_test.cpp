// Texts that the launchers of several hosts exchange while their loops go on.
#include "launch/hosts/node_exchange.h"

#include <gtest/gtest.h>

#include <map>

#include "base/deadline.h"

namespace unisono::launcher {
namespace {

using Texts = std::vector<std::string>;

class NodeExchangeTest : public ::testing::Test {
 protected:
  NodeExchangeTest() {
    for (int node = 0; node < 3; ++node) nodes_.push_back(std::make_unique<NodeExchange>(store_, "attempt/0", node));
  }
  void begin(int node, const std::string& name, const std::vector<int>& among) {
    nodes_[static_cast<std::size_t>(node)]->begin(name, among, name + std::to_string(node), [this, node, name](const Texts& texts) {
      done_[{node, name}] = texts;
    });
  }
  /// Rounds of the loops until so many exchanges have ended.
  void run_until(std::size_t ended) {
    const base::Deadline deadline(std::chrono::seconds(60));
    while (done_.size() < ended && !deadline.passed()) {
      PollSet set;
      for (const auto& node : nodes_) node->wait_for(set);
      set.wake_at(deadline);
      set.wait();
    }
    ASSERT_EQ(done_.size(), ended);
  }

  std::shared_ptr<Store> store_ = std::make_shared<MemoryStore>();
  std::vector<std::unique_ptr<NodeExchange>> nodes_;
  std::map<std::pair<int, std::string>, Texts> done_;
};

TEST_F(NodeExchangeTest, AnExchangeGivesAllTextsToAll) {
  for (int node = 0; node < 3; ++node) begin(node, "a", {0, 1, 2});
  run_until(3);
  for (int node = 0; node < 3; ++node) EXPECT_EQ((done_[{node, "a"}]), (Texts{"a0", "a1", "a2"}));
}

TEST_F(NodeExchangeTest, ExchangesAreKeptApart) {
  begin(0, "all", {0, 1, 2});
  begin(0, "some", {2, 0});
  begin(2, "some", {2, 0});
  run_until(2);  // the others do not wait for it
  EXPECT_EQ((done_[{0, "some"}]), (Texts{"some2", "some0"}));
  begin(2, "all", {0, 1, 2});
  begin(1, "all", {0, 1, 2});
  run_until(5);
  EXPECT_EQ((done_[{1, "all"}]), (Texts{"all0", "all1", "all2"}));
}

TEST_F(NodeExchangeTest, AnExchangeIsGivenUpByItsEnd) {
  begin(0, "never", {0, 1});
  nodes_.clear();
  EXPECT_TRUE(done_.empty());
}

}  // namespace
}  // namespace unisono::launcher
