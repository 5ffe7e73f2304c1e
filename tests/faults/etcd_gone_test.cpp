// R8: the store in which the ranks met is killed, here etcd: while they join (m1), between calls (m3), and in a large call (m5). What runs goes on.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>

#include "covers.h"
#include "etcd_server.h"
#include "faults.h"

namespace unisono::testing {
namespace {

class EtcdGone : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    NEEDS_ETCD();
    server_ = std::make_unique<EtcdServer>();
  }
  std::unique_ptr<RunningCommand> start(int rank, std::vector<std::string> arguments, int timeout_seconds = 4) const {
    return std::make_unique<RunningCommand>(faulty_rank(std::move(arguments)),
                                            RunningCommand::Options{.environment = {{"TEST_INIT_METHOD", server_->url("/jobs/gone")},
                                                                                    {"TEST_INIT_RANK", std::to_string(rank)},
                                                                                    {"TEST_INIT_WORLD_SIZE", "2"},
                                                                                    {"TEST_HOSTS", GetParam()},
                                                                                    {"UNISONO_TIMEOUT", std::to_string(timeout_seconds)}}});
  }
  std::unique_ptr<EtcdServer> server_;
};

TEST_P(EtcdGone, RanksThatJoinFailWhereEtcdIsGone) {
  const auto first = start(0, {"store", "m3"});
  ASSERT_TRUE(first->until_out_has("coming")) << first->out();
  // Whether it is killed before the rank has come or while it waits for the other one, the rank is told.
  server_->kill();
  EXPECT_EQ(first->wait(), 4) << first->out() << first->err();
  const std::string ended = line_of(lines_of(first->out()), "ended by ");
  EXPECT_TRUE(ended.starts_with("Timeout ")) << ended;
  EXPECT_NE(ended.find("http://" + server_->endpoint()), std::string::npos) << ended;
}

TEST_P(EtcdGone, RanksJoinOnceEtcdComesBack) {
  const auto first = start(0, {"store", "m3"}, 40);
  ASSERT_TRUE(first->until_out_has("coming")) << first->out();
  server_->kill();
  server_->start();
  const auto second = start(1, {"store", "m3"}, 40);
  for (RunningCommand* const rank : {first.get(), second.get()}) {
    // They have 40 s to meet, which may all be needed.
    ASSERT_TRUE(rank->until([&] { return count(rank->out(), "ready") > 0; }, std::chrono::seconds(60))) << rank->out() << rank->err();
    rank->send(SIGUSR1);
  }
  for (RunningCommand* const rank : {first.get(), second.get()}) EXPECT_EQ(rank->wait(), 0) << rank->out() << rank->err();
}

TEST_P(EtcdGone, TheJobGoesOnWhereEtcdIsGone) {
  for (const std::string moment : {"m3", "m5"}) {
    const auto first = start(0, {"store", moment}, 8), second = start(1, {"store", moment}, 8);
    for (RunningCommand* const rank : {first.get(), second.get()}) ASSERT_TRUE(rank->until_out_has("ready")) << moment << rank->out() << rank->err();
    server_->kill();
    for (RunningCommand* const rank : {first.get(), second.get()}) rank->send(SIGUSR1);
    for (RunningCommand* const rank : {first.get(), second.get()}) {
      EXPECT_EQ(rank->wait(), 0) << moment << rank->out() << rank->err();
      const auto lines = lines_of(rank->out());
      EXPECT_EQ(line_of(lines, "the calls "), "went on") << rank->out();
      const std::string use = line_of(lines, "the store: ");
      EXPECT_TRUE(use.starts_with("Timeout ")) << use;
      EXPECT_NE(use.find("http://" + server_->endpoint()), std::string::npos) << use;
      EXPECT_EQ(line_of(lines, "finalized "), "well") << rank->out();
    }
    server_->start();
  }
}

INSTANTIATE_TEST_SUITE_P(R8, EtcdGone, ::testing::Values("a,a", "a,b"),
                         [](const auto& parameter) { return parameter.param == "a,a" ? "OneHost" : "TwoHosts"; });

}  // namespace
}  // namespace unisono::testing
