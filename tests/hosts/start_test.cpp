// The start of a job of several hosts: the launcher of each host speaks for its ranks.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "job.h"

namespace unisono::testing {
namespace {

/// Returns how many connections there are to a port of that host.
std::size_t connections_to(const Hosts& hosts, int host, int port) {
  const std::string lines = hosts.run(host, {"ss", "-Hnt", "state", "established", "sport", "=", fmt::format(":{}", port)});
  return static_cast<std::size_t>(std::count(lines.begin(), lines.end(), '\n'));
}

std::vector<std::unique_ptr<RunningCommand>> start_four_on_each(const Hosts& hosts, const std::vector<std::string>& words,
                                                                const Variables& more = {}) {
  std::vector<std::unique_ptr<RunningCommand>> job;
  for (int node = 0; node < 3; ++node) {
    job.push_back(hosts.start(node, node_words({.nodes = 3, .node = node, .ranks = 4, .master = hosts.address(0)}, words), with(secret, more)));
  }
  return job;
}

TEST(StartOfHosts, RanksShareTheConnectionOfTheirLauncherToTheStore) {
  MAKE_HOSTS(hosts, 3);
  TemporaryFolder folder;
  const auto job = start_four_on_each(hosts, {HOST_RANK, "hold", folder.path() + "/go"});
  for (const auto& launcher : job) ASSERT_TRUE(launcher->until_out_has("holding\n", 4)) << launcher->err();
  EXPECT_EQ(connections_to(hosts, 0, 29500), 4U) << "of each other launcher its own one, and that of its ranks";
  write_secret(folder.path() + "/go", "");
  for (int node = 0; node < 3; ++node) {
    RunningCommand& launcher = *job[static_cast<std::size_t>(node)];
    EXPECT_EQ(launcher.wait(), 0) << launcher.err();
    for (int rank = 4 * node; rank < 4 * node + 4; ++rank) {
      const std::string line =
          fmt::format("[{:>2}] rank {} of 12 at {}, with host0 host0 host0 host0 host1 host1 host1 host1", rank, rank, hosts.address(node));
      EXPECT_EQ(count(launcher.out(), line), 1) << line << "\n" << launcher.out();
    }
  }
}

TEST(StartOfHosts, ARankThatNeverComesIsNamedByThoseOfEveryHost) {
  MAKE_HOSTS(hosts, 3);
  TemporaryFolder folder;
  // The time of the ranks begins when all of their processes are there.
  const std::string program =
      fmt::format("test $RANK = 6 && exec sleep 100; echo up; while [ ! -e {}/go ]; do sleep 0.05; done; export UNISONO_TIMEOUT=6; exec {} meet",
                  folder.path(), HOST_RANK);
  const auto job = start_four_on_each(hosts, {"sh", "-c", program});
  for (std::size_t node = 0; node < 3; ++node) ASSERT_TRUE(job[node]->until_out_has("up\n", node == 1 ? 3 : 4)) << job[node]->err();
  write_secret(folder.path() + "/go", "");
  for (const auto& launcher : job) {
    EXPECT_NE(launcher->wait(), 0);
    const std::string all = launcher->out() + launcher->err();
    EXPECT_GE(count(all, "11 of 12 ranks joined within "), 1) << all;
    EXPECT_GE(count(all, "missing ranks 6 "), 1) << all;
  }
}

TEST(StartOfHosts, RanksEndWithTheJobsStore) {
  MAKE_HOSTS(hosts, 3);
  TemporaryFolder folder;
  const auto job = start_four_on_each(hosts, {HOST_RANK, "hold", folder.path() + "/never"});
  for (const auto& launcher : job) ASSERT_TRUE(launcher->until_out_has("holding\n", 4)) << launcher->err();
  job[0]->send(SIGKILL);
  for (int node = 1; node < 3; ++node) EXPECT_NE(job[static_cast<std::size_t>(node)]->wait(), 0);
}

}  // namespace
}  // namespace unisono::testing
