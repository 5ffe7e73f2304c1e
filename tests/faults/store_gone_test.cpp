// R8: a store that is a program of its own is killed while ranks join, between two calls, and in a call.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "faults.h"

namespace unisono::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class StoreGone : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(store_.until_out_has("port ")) << store_.err();
    port_ = word_after(store_.out(), "port ");
  }
  void start(int first, int last, int ranks, const std::vector<std::string>& words) {
    for (int r = first; r < last; ++r) {
      ranks_.push_back(std::make_unique<RunningCommand>(faulty_rank(words),
                                                        RunningCommand::Options{.environment = {{"TEST_STORE_PORT", port_},
                                                                                                {"TEST_INIT_RANK", std::to_string(r)},
                                                                                                {"TEST_INIT_WORLD_SIZE", std::to_string(ranks)},
                                                                                                {"TEST_INIT_BACKEND", GetParam()}}}));
    }
  }
  RunningCommand store_{faulty_rank({"serve-store"})};
  /// Has the ranks go on, and end once all have told an error.
  void go_on_to_the_error() {
    for (const auto& rank : ranks_) rank->send(SIGUSR1);
    for (const auto& rank : ranks_) EXPECT_TRUE(rank->until_out_has("error ")) << rank->out() << rank->err();
    for (const auto& rank : ranks_) rank->send(SIGUSR1);
  }
  std::string port_;
  std::vector<std::unique_ptr<RunningCommand>> ranks_;
};

void expect_names_the_store(RunningCommand& rank, const std::string& port) {
  const std::string error = line_of(lines_of(rank.out()), "error ");
  EXPECT_NE(error.find("store"), std::string::npos) << error;
  EXPECT_NE(error.find("127.0.0.1:" + port), std::string::npos) << error;
}

TEST_P(StoreGone, R8AStoreThatGoesWhileRanksJoinIsAnErrorThatNamesIt) {
  start(0, 3, 4, {"join-only"});
  for (const auto& rank : ranks_) ASSERT_TRUE(rank->until_out_has("here ")) << rank->err();
  ASSERT_FALSE(ranks_[0]->until([&] { return count(ranks_[0]->out(), "ready") > 0; }, milliseconds(200)));
  store_.send(SIGKILL);
  for (const auto& rank : ranks_) {
    EXPECT_EQ(rank->wait(seconds(20)), 3) << rank->out() << rank->err();
    expect_names_the_store(*rank, port_);
  }
}

TEST_P(StoreGone, R8AStoreThatGoesLaterIsNoMatterToCallsAndAnErrorToWhatNeedsIt) {
  start(0, 4, 4, {"without-store"});
  for (const auto& rank : ranks_) ASSERT_TRUE(rank->until_out_has("under way")) << rank->out() << rank->err();
  store_.send(SIGKILL);
  ASSERT_EQ(store_.wait(), 137);
  go_on_to_the_error();
  for (const auto& rank : ranks_) {
    EXPECT_EQ(rank->wait(seconds(30)), 3) << rank->out() << rank->err();
    EXPECT_EQ(count(rank->out(), "rounds right"), 1) << rank->out();
    EXPECT_EQ(count(rank->out(), "SUCCEEDED"), 0) << rank->out();
    expect_names_the_store(*rank, port_);
  }
}

// The world's calls may take half an hour, and the group three seconds: all that is asked of the store for it has one deadline.
TEST_P(StoreGone, R8AStoreThatStopsKeepsNoGroupForLongerThanItsDeadline) {
  start(0, 2, 2, {"without-store", "3"});
  for (const auto& rank : ranks_) ASSERT_TRUE(rank->until_out_has("under way")) << rank->out() << rank->err();
  store_.send(SIGSTOP);
  go_on_to_the_error();
  for (const auto& rank : ranks_) {
    EXPECT_EQ(rank->wait(seconds(25)), 3) << rank->out() << rank->err();
    const std::string error = line_of(lines_of(rank->out()), "error ");
    EXPECT_TRUE(error.starts_with("Timeout ")) << error;
    expect_names_the_store(*rank, port_);
  }
}

TEST_P(StoreGone, R8AStoreThatGoesInACallIsNoMatterToIt) {
  start(0, 4, 4, {"work", "large", "1"});
  for (const auto& rank : ranks_) {
    ASSERT_TRUE(rank->until([&] { return count(rank->out(), "under way") > 0; }, seconds(120))) << rank->out() << rank->err();
  }
  store_.send(SIGKILL);
  for (const auto& rank : ranks_) EXPECT_EQ(rank->wait(milliseconds(500)), -1) << rank->out() << rank->err();
  ranks_[1]->send(SIGKILL);
  for (const int r : {0, 2, 3}) {
    RunningCommand& rank = *ranks_[static_cast<std::size_t>(r)];
    EXPECT_EQ(rank.wait(seconds(50)), 3) << rank.out() << rank.err();
    EXPECT_EQ(word_after(line_of(lines_of(rank.out()), "error "), "culprit="), "1") << rank.out();
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, StoreGone, ::testing::Values("native", "tcp"), [](const auto& one) { return one.param; });

}  // namespace
}  // namespace unisono::testing
