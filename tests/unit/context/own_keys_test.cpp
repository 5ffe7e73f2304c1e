// The remains of groups that are over: keys in the store, until all members have come to a later group, and names of groups in a link.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "context/formed_groups.h"
#include "store/wrappers.h"
#include "transport/tcp/transfer.h"

namespace unisono {
namespace {

using Keys = std::vector<std::string>;

TEST(OwnKeys, OwnKeysAreThoseThatThisProcessMade) {
  const auto inner = std::make_shared<MemoryStore>();
  inner->set("theirs", "1");
  inner->add("their count", 1);
  inner->set("contested", "a");
  Keys own;
  {
    store::OwnKeysStore store(inner, [&](Keys&& keys) { own = keys; });
    store.set("set", "1");
    store.set("set", "2");
    EXPECT_EQ(store.add("count", 1), 1);
    EXPECT_EQ(store.add("their count", 1), 2);
    EXPECT_EQ(store.compare_set("decided", "", "b"), "b");
    EXPECT_EQ(store.compare_set("contested", "", "b"), "a");
    store.set("erased", "1");
    EXPECT_TRUE(store.erase("erased"));
    EXPECT_EQ(store.get("theirs"), "1");
    EXPECT_EQ(store.num_keys(), 6);
    EXPECT_TRUE(own.empty());
  }
  EXPECT_EQ(own, (Keys{"count", "decided", "set"}));
  EXPECT_EQ(inner->num_keys(), 6);  // erasing them is left to others
}

TEST(OwnKeys, OwnKeysAreErasedAlone) {
  const auto inner = std::make_shared<MemoryStore>();
  inner->set("theirs", "1");
  store::OwnKeysStore store(inner);
  store.set("set", "1");
  store.add("count", 1);
  store.compare_set("decided", "", "b");
  store.erase_own();
  EXPECT_EQ(inner->num_keys(), 1);
  EXPECT_EQ(inner->get("theirs"), "1");
  inner->set("set", "theirs as well");
  store.erase_own();
  EXPECT_EQ(inner->num_keys(), 2);
}

TEST(LeftKeys, KeysThatAreLeftWaitForALaterGroupOfTheSameMembers) {
  context::LeftKeys left;
  left.leave("0.1", 4, {"e", "f"});
  left.leave("0.1", 3, {"d"});
  left.leave("0.2", 1, {"x"});
  EXPECT_EQ(left.take_before("0.1", 3), Keys{});
  EXPECT_EQ(left.take_before("0.1", 4), Keys{"d"});
  EXPECT_EQ(left.take_before("0.1", 9), (Keys{"e", "f"}));
  EXPECT_EQ(left.take_before("0.1", 9), Keys{});
  EXPECT_EQ(left.take_before("0.2", 2), Keys{"x"});
}

TEST(EndedGroups, EndedGroupsAreTheLastOnes) {
  transport::EndedGroups ended;
  constexpr std::uint64_t times = 3 * transport::EndedGroups::most;
  for (std::uint64_t group = 0; group < times; ++group) {
    ended.insert(group);
    ended.insert(group);  // by the engine and the group
  }
  EXPECT_TRUE(ended.contains(times - 1));
  EXPECT_TRUE(ended.contains(times - transport::EndedGroups::most));
  EXPECT_FALSE(ended.contains(times - transport::EndedGroups::most - 1));
  EXPECT_FALSE(ended.contains(times));
}

}  // namespace
}  // namespace unisono
