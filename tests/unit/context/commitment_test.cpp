// All members of a group that is formed have it, or none: context/formation.h.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "context/formation.h"
#include "unisono/error.h"
#include "unisono/store.h"

namespace unisono::context {
namespace {

using namespace std::chrono_literals;

/// A member of a group of three: what it looks at while it waits, and how its commitment ended.
class Member {
 public:
  Member(std::shared_ptr<Store> store, int rank, std::function<void()> look)
      : formation_({.operation = "shrink_group", .group = "{0, 1, 2}", .rank = rank, .size = 3, .store = std::move(store), .look = std::move(look)}) {
  }

  /// Returns what it throws; empty: it has the group.
  std::future<std::string> come() {
    return std::async(std::launch::async, [this] {
      try {
        commit(formation_, 3, base::Deadline(20s), [](const std::exception_ptr& error) { return error; });
        return std::string();
      } catch (const PeerFailed& error) {
        return error.message();
      }
    });
  }
  /// Gives up before it has its part of the group.
  void give_up(const std::string& why) { formation_.give_up(std::make_exception_ptr(PeerFailed(why, {.culprit = 1}, PeerFailed::Cause::killed))); }

 private:
  Formation formation_;
};

class CommitmentTest : public ::testing::Test {
 protected:
  Member& member(
      int rank, std::function<void()> look = [] {}) {
    members_.push_back(std::make_unique<Member>(store, rank, std::move(look)));
    return *members_.back();
  }
  std::shared_ptr<Store> store = std::make_shared<MemoryStore>();

 private:
  std::vector<std::unique_ptr<Member>> members_;
};

[[noreturn]] void see_death() { throw PeerFailed("rank 1 was killed", {.culprit = 1}, PeerFailed::Cause::killed); }

TEST_F(CommitmentTest, AllHaveItWhenAllHaveCome) {
  auto first = member(0).come(), second = member(1).come();
  EXPECT_EQ(first.wait_for(300ms), std::future_status::timeout);
  auto third = member(2).come();
  EXPECT_EQ(first.get(), "");
  EXPECT_EQ(second.get(), "");
  EXPECT_EQ(third.get(), "");
}

TEST_F(CommitmentTest, NobodyHasItWhereOneHasGivenUp) {
  auto first = member(0).come(), second = member(2).come();
  member(1).give_up("rank 1 has no memory");
  EXPECT_EQ(first.get(), "rank 1 has no memory");
  EXPECT_EQ(second.get(), "rank 1 has no memory");
}

// Only one of them sees the death; the one that comes later does not have the group for itself.
TEST_F(CommitmentTest, NobodyHasItWhereOneHasSeenADeath) {
  auto first = member(0, see_death).come();
  EXPECT_EQ(first.get(), "rank 1 was killed");
  auto second = member(2).come(), third = member(1).come();
  EXPECT_EQ(second.get(), "rank 1 was killed");
  EXPECT_EQ(third.get(), "rank 1 was killed");
}

// A death that is seen when all have come is met by the group's next call, on all of them.
TEST_F(CommitmentTest, ADeathAfterTheDecisionChangesNothing) {
  auto first = member(0).come(), second = member(1).come();
  auto third = member(2, [this] {
                 if (store->try_get("decision")) see_death();
               }).come();
  for (auto* one : {&first, &second, &third}) EXPECT_EQ(one->get(), "");
  // As for one that was late to read the decision.
  EXPECT_EQ(member(0, see_death).come().get(), "");
}

}  // namespace
}  // namespace unisono::context
