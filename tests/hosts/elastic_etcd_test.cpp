// A job of MIN to MAX hosts that meet in etcd, on several hosts: `unisono run --nnodes MIN:MAX --store etcd://…`.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "covers.h"
#include "etcd_server.h"
#include "faults/faults.h"
#include "job.h"

namespace unisono::testing {
namespace {

/// A launcher of two ranks on that host. The job is done once a rank in this place is a member. `last_call`: how many seconds it waits for more
/// hosts.
std::unique_ptr<RunningCommand> launcher_on(const Hosts& hosts, int host, const std::string& store, int size, int place,
                                            const std::string& last_call = "1") {
  Variables variables = end_of_training();
  variables.insert({{"UNISONO_LOG", "warning"}, {"TEST_SILENCE_MS", "3000"}});
  return hosts.start(host,
                     unisono_command({"run", "--nnodes", "1:3", "--last-call", last_call, "-n", "2", "--store", store, "--grace", "3", "--",
                                      FAULT_RANK, "elastic", "60", std::to_string(size), "place", "-", std::to_string(place)}),
                     with(secret, variables));
}

// Nobody is told an address or a number. The launcher of host 0 dies: the others end, and one that comes then begins another job once the lease of
// the dead one has run out, since nothing but that tells it so. Another host comes into that job while it runs.
TEST(ElasticEtcdOfHosts, HostsOfEtcdBeginAnewOnceTheLeaseOfHostZeroHasRunOut) {
  COVERS("TS-50");
  if (!EtcdServer::is_here()) GTEST_SKIP() << EtcdServer::how_to_get_it;
  MAKE_HOSTS(hosts, 3);
  const TemporaryFolder folder;
  const std::string address = hosts.address(2) + ":2379";
  const auto etcd = hosts.start(2, EtcdServer::words_of("http://" + address, "http://127.0.0.1:2380", folder.path()));
  const std::string store = fmt::format("etcd://{}/jobs/elastic?ttl=5", address);
  std::vector<std::unique_ptr<RunningCommand>> job;
  // Both are there at the start: a rank that comes later does not say that it is under way.
  for (const int host : {0, 1}) job.push_back(launcher_on(hosts, host, store, 4, 99, "4"));
  for (const auto& launcher : job) ASSERT_TRUE(launcher->until_out_has("under way", 2)) << launcher->err();
  const std::size_t zero = count(job[0]->out(), tag(0)) > 0 ? 0 : 1, other = 1 - zero;
  job[zero]->send(SIGKILL);
  EXPECT_EQ(job[other]->wait(), 1) << job[other]->err();
  EXPECT_EQ(count(job[other]->err(), fmt::format("first cause: the launcher at host{}:", zero)), 1) << job[other]->err();

  const auto next = launcher_on(hosts, 2, store, 4, 3);
  ASSERT_TRUE(next->until([&] { return count(next->out(), "under way") == 2; }, std::chrono::seconds(60))) << next->out() << next->err();
  EXPECT_EQ(count(next->out(), tag(0) + "ready"), 1) << next->out();
  const auto late = launcher_on(hosts, 0, store, 4, 3);
  for (RunningCommand* const launcher : {next.get(), late.get()}) {
    EXPECT_EQ(launcher->wait(longest_training), 0) << launcher->out() << launcher->err();
  }
  const std::string out = next->out() + late->out();
  EXPECT_EQ(count(out, "WRONG"), 0) << out;
  EXPECT_EQ(count(out, "done as rank"), 4) << out;
  EXPECT_EQ(count(out, "sizes 2,4\n"), 4) << out;
}

// The launchers could be of one machine, so nobody is refused; but both say at once why they wait.
TEST(ElasticEtcdOfHosts, HostsOfEtcdSayThatHostZeroHasToldALoopbackAddress) {
  if (!EtcdServer::is_here()) GTEST_SKIP() << EtcdServer::how_to_get_it;
  MAKE_HOSTS(hosts, 3);
  const TemporaryFolder folder;
  const std::string address = hosts.address(2) + ":2379";
  const auto etcd = hosts.start(2, EtcdServer::words_of("http://" + address, "http://127.0.0.1:2380", folder.path()));
  std::vector<std::unique_ptr<RunningCommand>> job;
  for (const int host : {0, 1})
    job.push_back(hosts.start(
        host, unisono_command({"run", "--nnodes", "2:2", "-n", "1", "--store", fmt::format("etcd://{}/jobs/loopback", address), "--", "true"}),
        with(secret, {{"UNISONO_INTERFACE", "lo"}})));
  const auto says = [&](const std::string& text) {  // any of them may be host 0
    const auto one_says = [&](const auto& launcher) {
      return launcher->until([&] { return count(unwrapped(launcher->err()), text) > 0; }, std::chrono::milliseconds(50));
    };
    return eventually([&] { return std::ranges::any_of(job, one_says); }, std::chrono::seconds(60));
  };
  EXPECT_TRUE(says("have come, and 2 are enough; it is a loopback address, which no other machine reaches")) << job[0]->err() << job[1]->err();
  EXPECT_TRUE(says("it is loopback of that host, where UNISONO_INTERFACE chooses another")) << job[0]->err() << job[1]->err();
  for (const auto& launcher : job) launcher->send(SIGKILL);
}

}  // namespace
}  // namespace unisono::testing
