// Which engine `auto` takes between hosts: ucx where every host has an RDMA device. None is here, so a plug-in of the test stands in the place of
// ours.

#include <gtest/gtest.h>

#include "job.h"

namespace unisono::testing {
namespace {

/// Starts a rank on each of two hosts. Returns what all have said.
std::string run_job(const Hosts& hosts, Variables variables, bool works) {
  variables["UNISONO_LOG"] = "debug";
  std::vector<std::unique_ptr<RunningCommand>> job;
  for (int node = 0; node < 2; ++node) {
    const NodeFlags flags{.nodes = 2, .node = node, .ranks = 1, .master = hosts.address(0)};
    job.push_back(hosts.start(node, node_words(flags, {HOST_RANK, "sum"}), with(variables, secret)));
  }
  std::string said;
  for (const auto& launcher : job) {
    const int code = launcher->wait();
    EXPECT_EQ(code == 0, works) << launcher->err();
    said += launcher->out() + launcher->err();
  }
  return said;
}

TEST(Auto, AutoTakesUcxWhereEveryRankHasADevice) {
  MAKE_HOSTS(hosts, 2);
  const std::string said = run_job(hosts, {{"UNISONO_PLUGIN_PATH", CHOICE_PLUGINS}}, false);
  EXPECT_GE(count(said, "the test's engine was chosen"), 1) << said;
}

TEST(Auto, AutoTakesTcpWhereOneRankHasNone) {
  for (const char* const rank : {"0", "1"}) {
    MAKE_HOSTS(hosts, 2);
    const std::string said = run_job(hosts, {{"UNISONO_PLUGIN_PATH", CHOICE_PLUGINS}, {"TEST_WITHOUT_DEVICE", rank}}, true);
    EXPECT_EQ(count(said, "backend tcp between hosts"), 1) << said;
    EXPECT_EQ(count(said, "backend ucx is not taken by itself: the test took this rank's device away"), 1) << said;
  }
}

TEST(Auto, AutoTakesTcpWhereEncryptionIsAskedFor) {
  for (const char* const mode : {"on", "required"}) {
    MAKE_HOSTS(hosts, 2);
    const std::string said = run_job(hosts, {{"UNISONO_PLUGIN_PATH", CHOICE_PLUGINS}, {"UNISONO_TLS", mode}}, true);
    EXPECT_EQ(count(said, "backend tcp between hosts"), 1) << said;
    EXPECT_EQ(count(said, "the test's engine was chosen"), 0) << said;
  }
}

TEST(Auto, AutoTakesTcpWhereUcxHasNoRdma) {
  MAKE_HOSTS(hosts, 2);
  const std::string said = run_job(hosts, {{"UNISONO_PLUGIN_PATH", OUR_PLUGINS}, {"UCX_TLS", "tcp"}}, true);
  EXPECT_EQ(count(said, "backend tcp between hosts"), 1) << said;
  EXPECT_EQ(count(said, "backend ucx is not taken by itself: "), 2) << said;
}

}  // namespace
}  // namespace unisono::testing
