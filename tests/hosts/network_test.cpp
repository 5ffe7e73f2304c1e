// Networks that fail under ranks in the middle of their work: nothing comes through in both directions or in one, for good or for a moment.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "job.h"

namespace unisono::testing {
namespace {

struct Cut {
  std::string name;
  std::vector<int> hosts;                     // where it happens
  std::vector<std::string> command, mending;  // there
};

std::ostream& operator<<(std::ostream& out, const Cut& cut) { return out << cut.name; }

const std::vector<std::string> blackhole{"tc", "qdisc", "add", "dev", "net0", "root", "blackhole"};
const std::vector<std::string> no_blackhole{"tc", "qdisc", "del", "dev", "net0", "root"};

class NetworksOfHosts : public ::testing::TestWithParam<Cut> {
 protected:
  /// A rank on each of two hosts; they sum until the file is there.
  static std::vector<std::unique_ptr<RunningCommand>> start(const Hosts& hosts, const std::string& file, const Variables& more) {
    std::vector<std::unique_ptr<RunningCommand>> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.push_back(hosts.start(rank, {HOST_RANK, "work", file}, with(rank_variables(rank, 2, hosts.address(0)), more)));
    }
    return ranks;
  }
};

// N1, N2, N3: each rank ends, and names the other one.
TEST_P(NetworksOfHosts, NetworksThatAreCutEndBothRanks) {
  MAKE_HOSTS(hosts, 2);
  TemporaryFolder folder;
  const auto ranks = start(hosts, folder.path() + "/never", {{"HOST_RANK_SILENCE_MS", "3000"}});
  for (const auto& rank : ranks) ASSERT_TRUE(rank->until_out_has("working\n")) << rank->err();
  for (const int host : GetParam().hosts) hosts.run(host, GetParam().command);
  for (int rank = 0; rank < 2; ++rank) {
    RunningCommand& each = *ranks[static_cast<std::size_t>(rank)];
    EXPECT_EQ(each.wait(), 1) << each.out() << each.err();
    EXPECT_EQ(count(each.out(), "failed: PeerFailed"), 1) << each.out();
    EXPECT_EQ(count(each.out(), fmt::format("[culprit: rank {} on host{}]", 1 - rank, 1 - rank)), 1) << each.out();
  }
}

// N4: what is mended within the limit of silence was no failure, and every sum is right.
TEST_P(NetworksOfHosts, NetworksThatHealInTimeAreOutlived) {
  MAKE_HOSTS(hosts, 2);
  TemporaryFolder folder;
  const auto ranks = start(hosts, folder.path() + "/go", {});
  for (const auto& rank : ranks) ASSERT_TRUE(rank->until_out_has("working\n")) << rank->err();
  for (const int host : GetParam().hosts) hosts.run(host, GetParam().command);
  for (const auto& rank : ranks) EXPECT_EQ(rank->wait(std::chrono::milliseconds(500)), -1) << rank->out();
  for (const int host : GetParam().hosts) hosts.run(host, GetParam().mending);
  write_secret(folder.path() + "/go", "");
  for (const auto& rank : ranks) EXPECT_EQ(rank->wait(), 0) << rank->out() << rank->err();
}

INSTANTIATE_TEST_SUITE_P(Cuts, NetworksOfHosts,
                         ::testing::Values(Cut{"link_down", {1}, {"ip", "link", "set", "net0", "down"}, {"ip", "link", "set", "net0", "up"}},
                                           // N10
                                           Cut{"address_gone",
                                               {1},
                                               {"ip", "address", "del", "10.77.0.2/24", "dev", "net0"},
                                               {"ip", "address", "add", "10.77.0.2/24", "dev", "net0"}},
                                           Cut{"both_ways", {0, 1}, blackhole, no_blackhole}, Cut{"out_of_host_0", {0}, blackhole, no_blackhole},
                                           Cut{"out_of_host_1", {1}, blackhole, no_blackhole}),
                         [](const auto& one) { return one.param.name; });

// N10: packets that become smaller in the middle of the work.
TEST(SlowNetworks, SlowNetworksWithSmallPacketsAreNoFailure) {
  MAKE_HOSTS(hosts, 2);
  TemporaryFolder folder;
  std::vector<std::unique_ptr<RunningCommand>> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(hosts.start(rank, {HOST_RANK, "work", folder.path() + "/go"}, rank_variables(rank, 2, hosts.address(0))));
  }
  for (const auto& rank : ranks) ASSERT_TRUE(rank->until_out_has("working\n")) << rank->err();
  for (const int host : {0, 1}) hosts.run(host, {"ip", "link", "set", "net0", "mtu", "576"});
  for (const auto& rank : ranks) EXPECT_EQ(rank->wait(std::chrono::milliseconds(500)), -1) << rank->out();
  EXPECT_GT(count(hosts.run(0, {"ss", "-tinH"}), " mss:5"), 0) << "of the connections between the ranks";
  write_secret(folder.path() + "/go", "");
  for (const auto& rank : ranks) EXPECT_EQ(rank->wait(), 0) << rank->out() << rank->err();
}

// N6: who waits long for data that flows has no dead peer, although their heartbeats wait behind it.
TEST(SlowNetworks, SlowNetworksAreNoDeadOnes) {
  MAKE_HOSTS(hosts, 2);
  // The queue drops nothing: while TCP sends a lost packet again, nothing arrives for longer than the limit of this test.
  for (const int host : {0, 1})
    hosts.run(host, {"tc", "qdisc", "add", "dev", "net0", "root", "tbf", "rate", "1mbit", "burst", "16kb", "limit", "8mb"});
  std::vector<std::unique_ptr<RunningCommand>> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    const Variables variables = with(rank_variables(rank, 2, hosts.address(0)), {{"HOST_RANK_SILENCE_MS", "1500"}});
    ranks.push_back(hosts.start(rank, {HOST_RANK, "move", "30000"}, variables));
  }
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank->wait(), 0) << rank->out() << rank->err();
    EXPECT_EQ(count(rank->out(), "all is right"), 1) << rank->out();
  }
  EXPECT_EQ(count(hosts.run(0, {"tc", "-s", "qdisc", "show", "dev", "net0"}), "overlimits 0 "), 0) << "the link did not slow them down";
}

// S4: four ranks, by shared memory and by the network, and eight other processes that want both processors. Nobody is taken for dead.
TEST(BusyHosts, BusyHostsHaveNoDeadRanks) {
  MAKE_HOSTS(hosts, 2);
  TemporaryFolder folder;
  std::vector<std::unique_ptr<RunningCommand>> busy;
  for (int i = 0; i < 8; ++i) busy.push_back(hosts.start(i % 2, {"sh", "-c", "while :; do :; done"}));
  const auto job = start_job(hosts, 2, {HOST_RANK, "work", folder.path() + "/go"}, {}, with(secret, {{"HOST_RANK_SILENCE_MS", "2000"}}));
  for (const auto& launcher : job) ASSERT_TRUE(launcher->until_out_has("working\n", 2)) << launcher->err();
  for (const auto& launcher : job) EXPECT_EQ(launcher->wait(std::chrono::seconds(3)), -1) << launcher->out();
  write_secret(folder.path() + "/go", "");
  for (const auto& launcher : job) {
    EXPECT_EQ(launcher->wait(), 0) << launcher->out() << launcher->err();
    EXPECT_EQ(count(launcher->err(), "silent") + count(launcher->err(), "stopped"), 0) << launcher->err();
  }
}

}  // namespace
}  // namespace unisono::testing
