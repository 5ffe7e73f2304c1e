// The culprit where ranks have called different things, and the text that names it.

#include "engines/decision.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace unisono::engines {
namespace {

/// A letter for what each rank calls.
Decision decide_on(const std::string& calls) {
  std::vector<Ballot> ballots;
  for (std::size_t r = 0; r < calls.size(); ++r) {
    const std::string call(1, calls[r]);
    ballots.push_back({.rank = static_cast<int>(r), .key = call, .call = call + "()"});
  }
  return decide(ballots);
}

using Ranks = std::vector<int>;

TEST(Ballots, BallotsBlameThoseThatDifferFromMoreThanHalf) {
  const std::vector<std::pair<std::string, Ranks>> rows{
      {"ab", {}},        {"aab", {2}},      {"baa", {0}},  {"abc", {}},   {"abbb", {0}},    {"aabb", {}},   {"aabc", {}},           {"abcd", {}},
      {"ababa", {1, 3}}, {"abaac", {1, 4}}, {"aabbc", {}}, {"abcde", {}}, {"baaaaaa", {0}}, {"aaabbb", {}}, {"aaaabbc", {4, 5, 6}},
  };
  for (const auto& [calls, blamed] : rows) {
    const Decision decision = decide_on(calls);
    EXPECT_EQ(decision.blamed, blamed) << calls;
    EXPECT_EQ(decision.culprit().value_or(-1), blamed.empty() ? -1 : blamed.front()) << calls;
    EXPECT_EQ(decision.ranks, static_cast<int>(calls.size()));
    EXPECT_EQ(decision.majority.has_value(), !blamed.empty()) << calls;
  }
}

TEST(Ballots, BallotsSayWhatEachHasCalled) {
  EXPECT_EQ(decide_on("ab").calls, "rank 0 a(), rank 1 b()");
  EXPECT_EQ(decide_on("abaa").calls, "rank 1 b(), ranks 0, 2, 3 a()");
  EXPECT_EQ(decide_on("caaba").calls, "rank 0 c(), rank 3 b(), ranks 1, 2, 4 a()");
  EXPECT_EQ(decide_on("abcdef").calls, "rank 0 a(), rank 1 b(), rank 2 c(), …, rank 5 f()");
  EXPECT_EQ(decide_on("abcdaaaaa").calls, "rank 1 b(), rank 2 c(), rank 3 d(), ranks 0, 4-8 a()");
  EXPECT_EQ(decide_on("abcdeaaaaaa").calls, "rank 1 b(), rank 2 c(), rank 3 d(), …, ranks 0, 5-10 a()");
  EXPECT_EQ(describe(decide_on("ab"), false), "the ranks called different things: rank 0 a(), rank 1 b()");
  EXPECT_EQ(describe(decide_on("aab"), true), "the ranks called different things, this rank another than most: rank 2 b(), ranks 0, 1 a()");
}

// The decision is the same in whatever order the calls have come.
TEST(Ballots, BallotsAreShownByRank) {
  std::vector<Ballot> ballots;
  for (const auto& [rank, call] : {std::pair(2, 'c'), {4, 'b'}, {3, 'a'}, {1, 'b'}, {0, 'a'}, {6, 'a'}, {5, 'a'}}) {
    ballots.push_back({.rank = rank, .key = std::string(1, call), .call = std::string(1, call) + "()"});
  }
  const Decision decision = decide(ballots);
  EXPECT_EQ(decision.blamed, (Ranks{1, 2, 4}));
  EXPECT_EQ(decision.calls, "ranks 1, 4 b(), rank 2 c(), ranks 0, 3, 5, 6 a()");
}

TEST(Ballots, TheRankThatFitsToFewestIsToBlameAmongPairsThatDoNotFit) {
  const Decision one = decide(std::vector<Conflict>{{.a = 0, .b = 1, .text = "0 and 1"}}, 3);
  EXPECT_EQ(one.culprit(), std::nullopt);
  EXPECT_EQ(one.calls, "0 and 1");
  const Decision several = decide(std::vector<Conflict>{{0, 3, "0 and 3"}, {1, 2, "1 and 2"}, {0, 2, "0 and 2"}, {2, 3, "2 and 3"}}, 4);
  EXPECT_EQ(several.blamed, Ranks{2});
  EXPECT_EQ(several.calls, "1 and 2");
  EXPECT_EQ(several.ranks, 4);
}

TEST(Ballots, ShapesStandBehindTheCall) {
  const Signature signature{.what = 2 | (std::uint64_t{11} << 8), .count = 6, .extra = 0};
  EXPECT_EQ(describe(signature, "all_reduce of [2, 3]"), describe(signature, "") + " of [2, 3]");
  EXPECT_EQ(describe(signature, "my call of [2, 3]"), "my call of [2, 3]: " + describe(signature, ""));
  EXPECT_NE(ballot_of(0, signature, "").key, ballot_of(0, {.what = signature.what, .count = 7, .extra = 0}, "").key);
}

}  // namespace
}  // namespace unisono::engines
