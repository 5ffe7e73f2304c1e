// Many hosts whose ranks connect when they first need to: a rank on each, in a network of its own.

#include <gtest/gtest.h>
#include <signal.h>

#include "job.h"

namespace unisono::testing {
namespace {

const Variables on_demand{{"UNISONO_MAX_EAGER_CONNECTIONS", "0"}};

std::vector<std::unique_ptr<RunningCommand>> start_ranks(const Hosts& hosts, int ranks, const std::vector<std::string>& words,
                                                         const Variables& more) {
  std::vector<std::unique_ptr<RunningCommand>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(hosts.start(rank, words, with(with(rank_variables(rank, ranks, hosts.address(0)), on_demand), more)));
  }
  return all;
}

TEST(HostsOnDemand, HostsOnDemandMoveDataWithAndWithoutEncryption) {
  for (const char* const tls : {"off", "required"}) {
    MAKE_HOSTS(hosts, 8);
    for (const auto& rank : start_ranks(hosts, 8, {HOST_RANK, "move"}, {{"UNISONO_TLS", tls}})) {
      EXPECT_EQ(rank->wait(), 0) << rank->out() << rank->err();
      EXPECT_EQ(count(rank->out(), "of 8 by tcp, all is right"), 1) << rank->out();
    }
  }
}

// Among eleven ranks, rank 1 is the one that ranks 9 and 10 are watched by.
class InnerHost : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr int ranks = 11;
};

TEST_P(InnerHost, AnInnerHostIsNamedByAllOthers) {
  MAKE_HOSTS(hosts, ranks);
  TemporaryFolder folder;
  const auto all = start_ranks(hosts, ranks, {HOST_RANK, "work", folder.path() + "/never"}, {{"HOST_RANK_SILENCE_MS", "4000"}});
  for (const auto& rank : all) ASSERT_TRUE(rank->until_out_has("working\n")) << rank->err();
  if (GetParam() == "killed") all[1]->send(SIGKILL);
  else if (GetParam() == "stopped") all[1]->send(SIGSTOP);
  else hosts.run(1, {"ip", "link", "set", "net0", "down"});
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == 1) continue;
    RunningCommand& each = *all[static_cast<std::size_t>(rank)];
    EXPECT_EQ(each.wait(), 1) << each.out() << each.err();
    EXPECT_EQ(count(each.out(), "failed: PeerFailed"), 1) << each.out();
    EXPECT_EQ(count(each.out(), "[culprit: rank 1 on host1]"), 1) << "rank " << rank << ": " << each.out();
  }
  if (GetParam() == "stopped") all[1]->send(SIGKILL);
}

INSTANTIATE_TEST_SUITE_P(HostsOnDemand, InnerHost, ::testing::Values("killed", "stopped", "cut_off"), [](const auto& one) { return one.param; });

}  // namespace
}  // namespace unisono::testing
