// Groups of their own, formed through a store: beside the process's context and beside each other.
#include <gtest/gtest.h>

#include "running_command.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

SpawnOptions ranks(int n) {
  SpawnOptions options;
  options.nproc_per_node = n;
  return options;
}

Membership member(const std::shared_ptr<Store>& store, const std::string& name, int rank, int size) {
  return Membership({.store = std::make_shared<PrefixStore>(name, store), .rank = rank, .size = size, .name = name});
}

TEST(Membership, SeveralGroupsBesideTheContext) {
  const TemporaryFolder folder;
  const auto results = spawn(ranks(3), [path = folder.path() + "/store"] {
    const auto store = std::make_shared<FileStore>(path);
    std::vector<int> seen;
    Membership reversed = member(store, "reversed", 2 - rank(), 3);
    const auto order = all_gather(rank(), reversed.group());
    seen.insert(seen.end(), order.begin(), order.end());
    if (rank() != 1) {
      Membership pair = member(store, "pair", rank() / 2, 2);
      seen.push_back(all_reduce(rank() + 10, ReduceOp::sum, pair.group()));
      seen.push_back(pair.group().name() == "pair" && pair.group().global_rank(1) == 1 ? 1 : 0);
    }
    seen.push_back(all_reduce(1));  // the context's world is none of theirs
    reversed.leave();
    try {
      static_cast<void>(reversed.group());
    } catch (const NotInitialized&) {
      seen.push_back(-1);
    }
    Membership again = member(store, "again", rank(), 3);
    seen.push_back(all_reduce(rank(), ReduceOp::max, again.group()));
    return seen;
  });
  EXPECT_EQ(results[0], (std::vector<int>{2, 1, 0, 22, 1, 3, -1, 2}));
  EXPECT_EQ(results[1], (std::vector<int>{2, 1, 0, 3, -1, 2}));
  EXPECT_EQ(results[2], (std::vector<int>{2, 1, 0, 22, 1, 3, -1, 2}));
}

TEST(Membership, OneWhoGivesUpIsSeenByTheOthers) {
  const TemporaryFolder folder;
  const auto results = spawn(ranks(2), [path = folder.path() + "/store"] {
    std::string text = "left";
    try {
      Membership both = member(std::make_shared<FileStore>(path), "both", rank(), 2);
      if (rank() == 0) throw std::runtime_error("no more");
      static_cast<void>(all_reduce(1, ReduceOp::sum, both.group()));
    } catch (const PeerFailed& error) {
      text = std::string(error.what());
    } catch (const std::runtime_error&) {
    }
    return text;
  });
  EXPECT_EQ(results[0], "left");
  EXPECT_NE(results[1].find("rank 0"), std::string::npos) << results[1];
  EXPECT_NE(results[1].find("both"), std::string::npos) << results[1];
}

TEST(Membership, AloneAndWithoutAStore) {
  EXPECT_THROW(Membership(MembershipOptions{}), InvalidArgument);
  Membership one({.store = std::make_shared<MemoryStore>(), .name = "one"});
  EXPECT_EQ(all_reduce(7, ReduceOp::sum, one.group()), 7);
  EXPECT_EQ(one.group().size(), 1);
  EXPECT_THROW(Membership({.store = std::make_shared<MemoryStore>(), .rank = 2, .size = 2}), InvalidArgument);
}

}  // namespace
}  // namespace unisono::testing
