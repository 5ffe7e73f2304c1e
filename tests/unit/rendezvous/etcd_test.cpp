// etcd:// as a meeting place.
#include <poll.h>

#include "etcd_server.h"
#include "store/etcd.h"
#include "testing.h"

namespace unisono::rendezvous {
namespace {

using testing::EtcdServer;

class EtcdMeeting : public ::testing::Test {
 protected:
  void SetUp() override {
    NEEDS_ETCD();
    server_ = std::make_unique<EtcdServer>();
    url_ = server_->url("/jobs/one");
  }
  std::int64_t keys_left() const { return store::etcd::open_etcd(url_, Environment(), base::Deadline(20s))->num_keys(); }

  std::unique_ptr<EtcdServer> server_;
  std::string url_;
};

TEST_F(EtcdMeeting, RanksMeetWithRanksGiven) {
  {
    const auto outcomes = together(3, [&](int rank) { return attempt({.init_method = url_, .rank = rank, .world_size = 3}); });
    expect_a_job(outcomes, 3);
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(outcomes[static_cast<std::size_t>(rank)].get().rank, rank);
    EXPECT_GT(keys_left(), 0);
  }
  EXPECT_EQ(keys_left(), 0) << "the last one removes them";
}

TEST_F(EtcdMeeting, RanksAreAssignedAroundThoseGiven) {
  const auto outcomes = together(4, [&](int i) {
    JobRequest request{.init_method = url_ + "?world_size=4"};
    if (i == 0) request.rank = 2;
    return attempt(request);
  });
  expect_a_job(outcomes, 4);
  EXPECT_EQ(outcomes[0].get().rank, 2);
}

TEST_F(EtcdMeeting, JobAfterJobMeets) {
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(in_background([&, rank] {
      for (int round = 0; round < 5; ++round) {
        const JobIdentity identity = meet({.init_method = url_, .rank = rank, .world_size = 3, .timeout = 60s}, Environment());
        identity.store->set(fmt::format("{}", rank), fmt::format("{} {}", round, rank));
        for (int other = 0; other < 3; ++other) EXPECT_EQ(identity.store->get(fmt::format("{}", other), 60s), fmt::format("{} {}", round, other));
        identity.leave(std::chrono::seconds(1));
      }
    }));
  }
  for (auto& rank : ranks) rank.join();
}

TEST_F(EtcdMeeting, TheMeetingNamesWhoIsMissingAndWhoIsThereTwice) {
  Outcome alone;
  std::jthread meanwhile([&] { alone = attempt({.init_method = url_, .rank = 1, .world_size = 3, .timeout = 5s}); });
  const auto twice = together(2, [&](int) { return attempt({.init_method = server_->url("/other"), .rank = 0, .world_size = 2, .timeout = 5s}); });
  meanwhile.join();
  EXPECT_CONTAINS(alone.text<Timeout>(), "0, 2");
  int duplicates = 0;
  for (const Outcome& outcome : twice) {
    try {
      outcome.get();
    } catch (const InvalidArgument& error) {
      EXPECT_CONTAINS(std::string(error.what()), "taken by");
      ++duplicates;
    } catch (const Timeout&) {  // of the other one, whose peer never comes
    }
  }
  EXPECT_EQ(duplicates, 1);
}

// A job whose processes were killed does not block the next one at the same place.
TEST_F(EtcdMeeting, RanksMeetAfterAJobThatWasKilled) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < 2; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      const Outcome outcome = attempt({.init_method = url_, .rank = rank, .world_size = 2, .timeout = 30s});
      if (outcome.identity) outcome.get().store->set(fmt::format("met {}", rank), "1");
      if (outcome.identity) ::pause();
      ::_exit(1);
    }
    children.push_back(child);
  }
  {
    const auto watching = store::etcd::open_etcd(url_, Environment(), base::Deadline(20s));
    const std::string prefix = "unisono/rendezvous//1/job/met ";
    watching->wait(std::vector<std::string>{prefix + "0", prefix + "1"}, 30s);
    for (const pid_t child : children) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }
  const auto outcomes = together(2, [&](int rank) { return attempt({.init_method = url_, .rank = rank, .world_size = 2, .timeout = 60s}); });
  expect_a_job(outcomes, 2);
  EXPECT_EQ(outcomes[0].get().generation, 2);
}

TEST_F(EtcdMeeting, AMeetingThatNobodyServesIsATimeoutWithTheEndpoint) {
  server_->kill();
  const Outcome outcome = attempt({.init_method = url_, .rank = 0, .world_size = 2, .timeout = 300ms});
  EXPECT_CONTAINS(outcome.text<Timeout>(), server_->endpoint());
}

}  // namespace
}  // namespace unisono::rendezvous
