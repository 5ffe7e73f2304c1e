// Jobs of MIN to MAX hosts whose launchers meet in etcd: `unisono run --nnodes MIN:MAX --store etcd://…`. The launchers are on this host here;
// tests/hosts/elastic_etcd_test.cpp has them on hosts of their own.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "covers.h"
#include "etcd_server.h"
#include "launchers.h"
#include "rendezvous/record.h"
#include "store/etcd.h"

namespace unisono::testing {
namespace {

using namespace std::chrono_literals;

/// These launchers share loopback, which the launchers cannot know.
const Variables on_loopback{{"UNISONO_INTERFACE", "lo"}};
constexpr const char* first_claim = "unisono/hosts/1/zero";
constexpr const char* first_address = "unisono/hosts/1/address";

class ElasticEtcd : public ::testing::Test {
 protected:
  void SetUp() override {
    NEEDS_ETCD();
    server_ = std::make_unique<EtcdServer>();
  }
  std::string url() const { return server_->url("/jobs/elastic"); }
  /// The launchers of a job whose ranks train until the test ends them.
  Launchers endless(const std::string& nodes = "1:2", const std::string& query = "") const {
    return {{.nodes = nodes, .ranks = "2", .steps = 1000000000, .moment = "place", .step = 99, .grace = "1"}, {"--store", url() + query}};
  }
  std::shared_ptr<store::etcd::KeysInEtcd> look() const { return store::etcd::open_etcd(url(), {}, base::Deadline(20s)); }
  /// Starts the launcher that becomes host 0, before others come.
  RunningCommand& start_host_zero(Launchers& job, const std::vector<std::string>& flags = {}) const {
    RunningCommand& zero = job.start(flags, on_loopback);
    look()->get(first_address, 30s);
    return zero;
  }
  /// Starts so many launchers, of which the first one is host 0, until the ranks of all are under way together.
  void begin(Launchers& job, int launchers) const {
    start_host_zero(job);
    for (int i = 1; i < launchers; ++i) job.start({}, on_loopback);
    for (const auto& launcher : job.all()) ASSERT_TRUE(launcher->until_out_has("under way", 2)) << launcher->err();
  }
  /// A claim to be host 0, as a launcher on another host makes it. It holds as long as `presence` does.
  static void claim_elsewhere(store::etcd::KeysInEtcd& store, std::int64_t presence, const std::string& address) {
    rendezvous::Record zero = rendezvous::own_record({});
    zero.member.host = "elsewhere";
    zero.member.machine = "another machine";
    zero.presence = presence;
    store.set(first_claim, rendezvous::encode(zero));
    if (!address.empty()) store.set(first_address, address);
  }

  std::unique_ptr<EtcdServer> server_;
};

void end(Launchers& job) {
  for (const auto& launcher : job.all()) launcher->send(SIGINT);
  for (const auto& launcher : job.all()) EXPECT_EQ(launcher->wait(), 130) << launcher->err();
  job.expect_nothing_left_of_all();
}

// Two launchers are enough to begin; a third one comes later, another one is killed, and one more takes part instead. None was told a number.
TEST_F(ElasticEtcd, HostsOfEtcdBeginWithTheLeastTakeOthersInAndGoOnWithoutOne) {
  COVERS("TS-50");
  Launchers job({.nodes = "2:3", .ranks = "2", .size = 6, .moment = "place", .step = 7}, {"--store", url()});
  begin(job, 2);
  job.start({}, on_loopback);
  ASSERT_TRUE(job[0].until_err_has(" has come; the job has 3 hosts now\n")) << job[0].err();
  ASSERT_TRUE(job[2].until_out_has("ready", 2)) << job[2].err();
  job[1].send(SIGKILL);
  ASSERT_TRUE(job[0].until_err_has("; the job goes on with 2 hosts\n")) << job[0].err();
  job.start({}, on_loopback);
  for (const std::size_t left : {0U, 2U, 3U}) EXPECT_EQ(job[left].wait(longest_training), 0) << job[left].out() << job[left].err();
  job.expect_done(6);
  EXPECT_EQ(count(job[0].err(), "takes its place"), 0) << "a host that is lost costs no restart: " << job[0].err();
  job.expect_nothing_left_of_all();
}

// The first one to claim it is host 0, however many come at the same time.
TEST_F(ElasticEtcd, HostsOfEtcdHaveOneHostZeroWhereAllComeAtOnce) {
  Launchers job({.nodes = "3:3", .ranks = "1", .size = 3, .moment = "place", .step = 2}, {"--store", url()});
  for (int i = 0; i < 3; ++i) job.start({}, on_loopback);
  for (const auto& launcher : job.all()) EXPECT_EQ(launcher->wait(longest_training), 0) << launcher->out() << launcher->err();
  job.expect_done(3, "0,1,2", "3");
  EXPECT_EQ(look()->num_keys(), 0) << "the last one removes them";
}

// Host 0 has the job's store: without it the others end, and say who it was. Nobody joins what is left of it, and the place is free.
TEST_F(ElasticEtcd, HostsOfEtcdEndWithHostZeroAndLeaveThePlaceToAnotherJob) {
  Launchers job = endless();
  begin(job, 2);
  RunningCommand& spare = job.start({}, on_loopback);
  ASSERT_TRUE(spare.until_err_has("waiting for host 0 at 127.0.0.1:")) << spare.err();
  job[0].send(SIGKILL);
  EXPECT_EQ(job[0].wait(), 128 + SIGKILL);
  // A launcher that waited for a place in that job does not begin it again.
  EXPECT_EQ(spare.wait(), 1) << spare.out() << spare.err();
  EXPECT_NE(spare.err().find("host 0 has ended, and has not taken this host into the job: the launchers' store at 127.0.0.1:"), std::string::npos)
      << spare.err();
  EXPECT_EQ(job[1].wait(), 1) << job[1].err();
  const std::string cause = fmt::format(":{} is lost: ", job[0].pid());
  EXPECT_EQ(count(job[1].err(), "first cause: the launcher at "), 1) << job[1].err();
  EXPECT_EQ(count(job[1].err(), cause), 1) << job[1].err();
  job.expect_nothing_left_of_all();
  Launchers next({.nodes = "1:2", .ranks = "2", .moment = "place", .step = 3}, {"--store", url()});
  next.start({"--node-rank", "0"}, on_loopback);
  next.start({"--node-rank", "1"}, on_loopback);
  for (const auto& launcher : next.all()) EXPECT_EQ(launcher->wait(longest_training), 0) << launcher->out() << launcher->err();
  next.expect_done(4);
}

// Of a host 0 on another host etcd alone tells whether it lives. While it does, it is waited for; then this launcher takes its place.
TEST_F(ElasticEtcd, HostsOfEtcdTakeThePlaceOfAHostZeroWhoseLeaseHasRunOut) {
  auto other = look();
  claim_elsewhere(*other, other->presence(), fmt::format("127.0.0.1 {}", free_port()));  // where nobody listens any more
  Launchers job({.nodes = "1:2", .ranks = "2", .size = 2, .moment = "place", .step = 1}, {"--store", url()});
  RunningCommand& launcher = job.start({}, on_loopback);
  ASSERT_TRUE(launcher.until_err_has("waiting for host 0 of the job that meets in " + url())) << launcher.err();
  EXPECT_EQ(launcher.out(), "");
  other.reset();
  EXPECT_EQ(launcher.wait(longest_training), 0) << launcher.out() << launcher.err();
  job.expect_done(2);
}

// A claim without a launcher is none, and a launcher that was told another number than 0 waits for the one that is host 0.
TEST_F(ElasticEtcd, HostsOfEtcdWaitForAHostZeroWithAnotherNumber) {
  const auto other = look();  // without which the claim would be removed
  claim_elsewhere(*other, other->presence() + 1, "");
  Launchers job({.nodes = "2:2", .ranks = "2", .moment = "place", .step = 3}, {"--store", url()});
  RunningCommand& one = job.start({"--node-rank", "1"}, on_loopback);
  ASSERT_TRUE(one.until_err_has("waiting for host 0 of the job that meets in ")) << one.err();
  job.start({}, on_loopback);
  for (const auto& launcher : job.all()) EXPECT_EQ(launcher->wait(longest_training), 0) << launcher->out() << launcher->err();
  EXPECT_EQ(count(job[1].out(), "[0] done as rank"), 1) << job[1].out();
  job.expect_done(4);
}

TEST_F(ElasticEtcd, HostsOfEtcdSayWhatIsMissing) {
  const Variables brief{{"UNISONO_INTERFACE", "lo"}, {"UNISONO_TIMEOUT", "4"}};
  Launchers nobody = endless();
  EXPECT_EQ(nobody.start({"--node-rank", "1"}, brief).wait(), 1);
  EXPECT_NE(nobody.err().find("no launcher has come to " + url() + " that may be host 0, within 4000 ms"), std::string::npos) << nobody.err();

  const auto other = look();
  const int port = free_port();
  for (const std::string& address : {std::string(), fmt::format("127.0.0.1 {}", port)}) {
    claim_elsewhere(*other, other->presence(), address);
    Launchers late = endless();
    EXPECT_EQ(late.start({}, brief).wait(), 1) << late.err();
    const std::string name = fmt::format("host 0 of the job at {}, elsewhere:{}, ", url(), ::getpid());
    const std::string why = address.empty() ? "has not told its address within" : fmt::format("cannot be reached (127.0.0.1:{}: ", port);
    EXPECT_NE(late.err().find(name), std::string::npos) << late.err();
    EXPECT_NE(late.err().find(why), std::string::npos) << late.err();
  }
  claim_elsewhere(*other, other->presence(), "somewhere");
  Launchers confused = endless();
  EXPECT_EQ(confused.start({}, brief).wait(), 1) << confused.err();
  EXPECT_NE(confused.err().find("sent a malformed address"), std::string::npos) << confused.err();
}

// As on a machine that was suspended: etcd has taken the launcher for dead, and another job has begun at its place meanwhile. The two would write the
// same checkpoints.
TEST_F(ElasticEtcd, HostsOfEtcdEndAJobWhoseHostZeroHasSleptAndLostItsPlace) {
  Launchers sleeping = endless("1:2", "?ttl=5"), next = endless("1:2", "?ttl=5");
  RunningCommand& sleeper = sleeping.start({}, on_loopback);
  ASSERT_TRUE(sleeper.until_out_has("under way", 2)) << sleeper.err();
  const auto store = look();
  const rendezvous::Record zero = rendezvous::decode(store->get(first_claim, 30s));
  sleeper.send(SIGSTOP);
  ASSERT_TRUE(eventually([&] { return !store->is_present(zero.presence); }, 60s));
  RunningCommand& other = next.start({}, on_loopback);
  ASSERT_TRUE(other.until_out_has("under way", 2)) << other.err();
  sleeper.send(SIGCONT);
  EXPECT_EQ(sleeper.wait(), 1) << sleeper.err();
  EXPECT_EQ(count(sleeper.err(), fmt::format("first cause: another job has taken the place of this one at {}, because", url())), 1) << sleeper.err();
  sleeping.expect_nothing_left_of_all();
  EXPECT_EQ(other.wait(500ms), -1) << other.err();
  end(next);
}

// Launchers of a second job are further hosts of the first one where they say the same, and are refused where not; the job goes on.
TEST_F(ElasticEtcd, HostsOfEtcdRefuseLaunchersThatSayAnotherThing) {
  Launchers job = endless();
  begin(job, 1);
  struct Case {
    std::vector<std::string> flags;
    std::string why;
  };
  for (const auto& [flags, why] : std::vector<Case>{
           {{"--node-rank", "0"}, fmt::format("host 0 of the job at {} is ", url())},
           {{"--nnodes", "1:3"}, "this launcher --nnodes 1:3 and"},
           {{"-n", "3"}, "every host has as many ranks"},
           {{"--nnodes", "2"}, fmt::format("the job at {} still runs, with --nnodes MIN:MAX and ", url())},
       }) {
    std::vector<std::string> words{"run", "--store", url()};
    words.insert(words.end(), flags.begin(), flags.end());
    for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"-n", "2"}, {"--nnodes", "1:2"}}) {
      if (flags.front() != name) words.insert(words.end(), {name, value});
    }
    words.insert(words.end(), {"--", "/bin/true"});
    RunningCommand other(unisono_command(words), {.environment = on_loopback});
    EXPECT_EQ(other.wait(), 2) << why << other.err();
    EXPECT_NE(unwrapped(other.err()).find(why), std::string::npos) << other.err();
  }
  job.start({}, on_loopback);
  ASSERT_TRUE(job[0].until_err_has(" has come; the job has 2 hosts now\n")) << job[0].err();
  ASSERT_TRUE(job[1].until_out_has("ready", 2)) << job[1].err();
  end(job);
}

// A launcher of MIN to MAX hosts does not come into a job of a fixed number, nor begin one beside it.
TEST_F(ElasticEtcd, HostsOfEtcdRefuseToComeIntoAJobOfAFixedNumber) {
  Launchers fixed = endless("2");
  for (int i = 0; i < 2; ++i) fixed.start({}, on_loopback);
  for (const auto& launcher : fixed.all()) ASSERT_TRUE(launcher->until_out_has("ready", 2)) << launcher->err();
  Launchers open = endless();
  EXPECT_EQ(open.start({}, on_loopback).wait(), 2) << open.err();
  EXPECT_NE(unwrapped(open.err()).find("and has a fixed number of hosts"), std::string::npos) << open.err();
  end(fixed);
  Launchers next({.nodes = "1:2", .ranks = "2", .size = 2, .moment = "place", .step = 1}, {"--store", url()});
  EXPECT_EQ(next.start({}, on_loopback).wait(longest_training), 0) << next.err();
}

// Once a launcher has come in, the job needs etcd no more: it goes on without a host that is lost.
TEST_F(ElasticEtcd, HostsOfEtcdGoOnWithoutEtcdOnceTheyHaveMet) {
  Launchers job = endless();
  begin(job, 2);
  server_->kill();
  job[1].send(SIGKILL);
  ASSERT_TRUE(job[0].until_err_has("; the job goes on with 1 host\n")) << job[0].err();
  job[0].send(SIGTERM);
  EXPECT_EQ(job[0].wait(), 128 + SIGTERM) << job[0].err();
  job.expect_nothing_left_of_all();
}

}  // namespace
}  // namespace unisono::testing
