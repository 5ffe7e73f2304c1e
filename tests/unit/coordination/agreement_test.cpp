// Ranks of several hosts come to one decision where they have called different things. One of them is tested, and gets the messages of the others.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coordination/agreement.h"
#include "coordination/notices.h"
#include "unisono/detail/switches.h"

using namespace unisono;
using namespace unisono::coordination;
using namespace std::chrono_literals;

namespace {

constexpr auto patience = 60s;  // what nobody needs who looks up

class BallotTime {
 public:
  explicit BallotTime(std::chrono::milliseconds time) { detail::set_ballot_time(time); }
  ~BallotTime() { detail::set_ballot_time(usual_); }
  BallotTime(const BallotTime&) = delete;
  BallotTime& operator=(const BallotTime&) = delete;

 private:
  const std::chrono::milliseconds usual_ = detail::ballot_time();
};

/// No rank has come to the call.
struct NoMail final : transport::CallMail {
  void post(int, std::uint64_t, std::span<const std::byte>, std::span<const std::byte>) override {}
  bool take(int, std::uint64_t, std::string&) override { return false; }
  void look(int) override {}
};

/// Rank 0 of hosts with one rank each.
struct RankZero {
  explicit RankZero(int hosts) : topology(0, one_rank_each(hosts)) { call.in = call.out = TensorView(data.data(), DType::float32, call.count); }

  static std::vector<int> one_rank_each(int hosts) {
    std::vector<int> of_ranks;
    for (int h = 0; h < hosts; ++h) of_ranks.push_back(h);
    return of_ranks;
  }
  /// Another host says that all of its ranks have called all_reduce of so many floats.
  void hears(int host, std::size_t count) {
    CollectiveCall theirs = call;
    theirs.in = theirs.out = TensorView(data.data(), DType::float32, count);
    theirs.count = count;
    ballots.take(host, Ballots::encode(number, {.agrees = true, .signature = engines::signature_of(theirs), .label = {}, .ballots = {}}));
  }
  /// `meanwhile`: is called each time the agreement has to wait.
  std::optional<Mismatch> decides(const std::function<void()>& meanwhile = [] { std::this_thread::yield(); }) {
    const AgreementParts parts = this->parts();
    const auto task = start_agreement(parts, number, call, nullptr);
    try {
      while (!task->advance()) meanwhile();
    } catch (const Mismatch& mismatch) {
      return mismatch;
    }
    return std::nullopt;
  }
  /// Those that are waited for, while nobody has come.
  std::vector<int> awaited() {
    const AgreementParts parts = this->parts();
    return start_agreement(parts, number, call, nullptr)->waiting_for();
  }
  AgreementParts parts() {
    return {.topology = &topology,
            .host = nullptr,
            .ballots = &ballots,
            .tell = [this](int rank, const std::string& text) { told.emplace_back(rank, text); },
            .tell_others =
                [this](const std::string& text) {
                  for (const int rank : topology.leaders) {
                    if (rank != topology.rank) told.emplace_back(rank, text);
                  }
                },
            .route = {.mail = &mail, .group = 1, .global_ranks = &topology.leaders},
            .memory = &memory,
            .poll = [] {},
            .sleep = [](const std::function<bool()>&, std::chrono::nanoseconds) { return false; },
            .is_over = [this] { return is_over; },
            .has_left_after = [this](int r, std::uint64_t after) { return left_after.contains(r) && left_after.at(r) >= after; },
            .gone = [this] { return gone; },
            .set_disputed = [](bool) {},
            .all_but_told = [] {}};
  }
  bool has_told(int rank, const std::string& text) const { return std::ranges::find(told, std::pair(rank, text)) != told.end(); }

  static constexpr std::uint64_t number = 7;
  std::array<float, 8> data{};
  GroupTopology topology;
  Ballots ballots;
  ExchangeMemory memory;
  NoMail mail;
  CollectiveCall call{.operation = Operation::all_reduce, .count = 3};
  std::vector<std::pair<int, std::string>> told;
  std::vector<int> gone;
  std::map<int, std::uint64_t> left_after;
  bool is_over = false;
};

// A single rank of three is to blame; while the third has not come, nobody is.
TEST(Agreement, AnAgreementWaitsForARankThatIsOnTheWay) {
  const BallotTime time(patience);
  RankZero rank(3);
  rank.hears(1, 4);
  const auto error = rank.decides([&] { rank.hears(2, 4); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->culprit(), 0) << error->what();
}

// What waits decides how: it may sleep, look at other calls, or end.
TEST(Agreement, AdvanceReturnsWhileRanksAreOnTheWay) {
  const BallotTime time(patience);
  RankZero rank(3);
  rank.hears(1, 4);
  int times = 0;
  ASSERT_TRUE(rank.decides([&] {
    if (++times == 5) rank.hears(2, 4);
  }));
  EXPECT_EQ(times, 5);
}

TEST(Agreement, AnAgreementDoesNotWaitForAHostThatIsGone) {
  const BallotTime time(patience);
  RankZero rank(4);
  rank.hears(1, 4);
  rank.hears(3, 3);
  rank.gone = {2};
  const auto begun = std::chrono::steady_clock::now();
  const auto error = rank.decides();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->culprit(), 1) << error->what();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, patience);
}

TEST(Agreement, AnAgreementWaitsForAHostThatLivesThoughAnotherIsGone) {
  const BallotTime time(patience);
  RankZero rank(4);
  rank.hears(1, 4);
  rank.gone = {2};
  const auto error = rank.decides([&] { rank.hears(3, 3); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->culprit(), 1) << error->what();
}

// A rank that has left after this agreement has come to it, though this one has not heard so from those between.
TEST(Agreement, AnAgreementDoesNotNameARankThatHasLeftAfterIt) {
  RankZero rank(3);
  rank.left_after[2] = 7;
  EXPECT_EQ(rank.awaited(), std::vector<int>{1});
  rank.left_after[2] = 6;
  EXPECT_EQ(rank.awaited(), (std::vector<int>{1, 2}));
}

// The group's failure keeps nobody waiting, and does not hide that ranks differ.
TEST(Agreement, AnAgreementDoesNotWaitInAGroupThatIsOver) {
  const BallotTime time(patience);
  RankZero rank(3);
  rank.hears(1, 4);
  rank.is_over = true;
  const auto begun = std::chrono::steady_clock::now();
  const auto error = rank.decides();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->culprit(), std::nullopt) << error->what();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, patience);
}

// A rank that decides without a host tells all others, that host too.
TEST(Agreement, AnAgreementTellsWhichRanksItHasLeftOut) {
  const BallotTime time(1ms);
  RankZero rank(4);
  rank.hears(1, 4);
  const auto error = rank.decides();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->culprit(), std::nullopt) << error->what();
  for (const int r : {1, 2, 3}) EXPECT_TRUE(rank.has_told(r, Ballots::encode_left_out(rank.number, {2, 3}))) << r;

  RankZero complete(2);
  complete.hears(1, 4);
  ASSERT_TRUE(complete.decides());
  for (const auto& [r, text] : complete.told) EXPECT_EQ(text.front(), static_cast<char>(NoticeKind::ballot));
}

// A rank decides without a host where another has done so: at once, and also if it knows what that host has called.
TEST(Agreement, AnAgreementLeavesOutRanksThatOthersHaveLeftOut) {
  const BallotTime time(patience);
  for (const bool has_come : {false, true}) {
    RankZero rank(4);
    rank.hears(1, 4);
    rank.hears(3, 3);
    if (has_come) rank.hears(2, 4);  // two against two: nobody would be to blame
    rank.ballots.take(1, Ballots::encode_left_out(rank.number, {2}));
    const auto begun = std::chrono::steady_clock::now();
    const auto error = rank.decides();
    EXPECT_LT(std::chrono::steady_clock::now() - begun, patience);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->culprit(), 1) << error->what();
    EXPECT_EQ(std::string(error->what()).find("rank 2"), std::string::npos) << error->what();
  }
}

// Even if it is this rank's own host.
TEST(Agreement, ARankMayLeaveItselfOut) {
  const BallotTime time(patience);
  RankZero rank(3);
  rank.hears(1, 4);
  rank.hears(2, 3);
  rank.ballots.take(1, Ballots::encode_left_out(rank.number, {0}));
  const auto error = rank.decides();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->culprit(), std::nullopt) << error->what();  // counted, rank 1 would be to blame
}

// Several may have left out one host each: where no two are left that differ, all that is known counts.
TEST(Agreement, AnAgreementCountsAllWhereTooManyAreLeftOut) {
  const BallotTime time(patience);
  RankZero rank(3);
  rank.hears(1, 4);
  rank.hears(2, 3);
  rank.ballots.take(1, Ballots::encode_left_out(rank.number, {1, 2}));
  const auto error = rank.decides();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->culprit(), 1) << error->what();
}

// Nothing is kept of a call that is over.
TEST(Agreement, AnAgreementForgetsRanksThatItHasLeftOut) {
  Ballots ballots;
  ballots.leave_out(3, {1});
  ballots.leave_out(4, {2});
  ballots.forget_before(4);
  EXPECT_EQ(ballots.left_out(3), std::set<int>());
  EXPECT_EQ(ballots.left_out(4), std::set<int>{2});
  ballots.take(1, Ballots::encode_left_out(3, {5}));
  EXPECT_EQ(ballots.left_out(3), std::set<int>());
}

}  // namespace
