// Jobs of several launchers that go on without lost ranks and hosts: `unisono run -n MIN:MAX --nnodes N` and `--nnodes MIN:MAX`. The launchers are on
// this host here; tests/hosts/elastic_test.cpp has them on hosts of their own.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/socket.h"
#include "covers.h"
#include "faults.h"
#include "launchers.h"
#include "store/client.h"

namespace unisono::testing {
namespace {

struct Loss {
  std::string name;
  Plan plan;
  std::string places;  // of the ranks at the end, in their order
  std::string sizes;   // of the groups that there were
  int replaced = 1;
};

void PrintTo(const Loss& loss, std::ostream* out) { *out << loss.name; }  // NOLINT(readability-identifier-naming): googletest looks for it

class LostOfHosts : public ::testing::TestWithParam<Loss> {};

TEST_P(LostOfHosts, ItsLauncherReplacesItWhileTheOthersGoOn) {
  COVERS("TS-49", "Q-30");
  const Loss& loss = GetParam();
  Launchers job(loss.plan);
  job.start_two();
  const base::Deadline deadline(longest_training);  // of all together
  for (const auto& launcher : job.all()) EXPECT_EQ(launcher->wait(deadline.left()), 0) << launcher->out() << launcher->err();
  job.expect_done(loss.plan.size, loss.places, loss.sizes);
  EXPECT_EQ(count(job.err(), "; another process takes its place in "), loss.replaced) << job.err();
  job.expect_nothing_left_of_all();
}

std::vector<Loss> losses() {
  std::vector<Loss> all;
  for (const char* moment : {"small", "large", "exit", "leave"}) {
    all.push_back({std::string("OfHostZero_") + moment, {.moment = moment, .victims = "1"}, "0,2,3,1", "4,3,4"});
    all.push_back({std::string("OfHostOne_") + moment, {.moment = moment, .victims = "2"}, "0,1,3,2", "4,3,4"});
  }
  all.push_back({"TheServersRankZero", {.moment = "small", .victims = "0"}, "1,2,3,0", "4,3,4"});
  all.push_back({"OverTcp", {.moment = "small", .victims = "3", .backend = "tcp"}, "0,1,2,3", "4,3,4"});
  // Each host loses a rank at once, and one restart is left, which they share.
  all.push_back({"OneOfEach", {.moment = "together", .victims = "1,3"}, "", "4,2,4", 2});
  all.push_back({"AllOfOneHost", {.moment = "together", .victims = "2,3"}, "", "4,2,4", 2});
  // Another one is lost while the survivors shrink, and while they grow.
  all.push_back({"InShrink", {.moment = "shrink", .victims = "1"}, "", "", 2});
  all.push_back({"InGrow", {.moment = "member", .victims = "1"}, "", "", 2});
  all.push_back({"Newcomer", {.moment = "newcomer", .victims = "1"}, "0,2,3,1", "4,3,4", 2});
  // It leaves without finalize where another has been lost before: the job does not come to its end by that.
  all.push_back({"OutOfAShrunkGroup", {.moment = "shrunk", .victims = "1"}, "", "", 2});
  // The launcher of host 0 stays although none of its ranks is left.
  all.push_back({"AllOfHostZeroForGood", {.restarts = 0, .size = 2, .moment = "together", .victims = "0,1"}, "2,3", "4,2", 0});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Faults, LostOfHosts, ::testing::ValuesIn(losses()), [](const auto& one) { return one.param.name; });

// The number of restarts is that of the whole job, whichever host uses them.
TEST(ElasticHosts, ElasticHostsShareTheRestarts) {
  COVERS("TS-49");
  Launchers job({.restarts = 1, .size = 3, .moment = "together", .victims = "1,3"});
  // Two are lost, and the mode "together" would wait for two that ask to be taken in.
  job.start_two();
  ASSERT_TRUE(job[0].until_err_has("rank 1 ended by SIGKILL")) << job[0].err();
  ASSERT_TRUE(job[1].until_err_has("rank 3 ended by SIGKILL")) << job[1].err();
  EXPECT_EQ(count(job.err(), "; another process takes its place in 1 s (restart 1 of 1)"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "takes its place"), 1) << job.err();
  for (const auto& launcher : job.all()) launcher->send(SIGINT);
  for (const auto& launcher : job.all()) EXPECT_EQ(launcher->wait(), 130) << launcher->err();
  job.expect_nothing_left_of_all();
}

// No rank of a host is left, and none can be started there for a while.
TEST(ElasticHosts, TryAStartThatHasFailedAgain) {
  const TemporaryFolder folder;
  const std::string program = folder.path() + "/rank";
  std::filesystem::create_symlink(FAULT_RANK, program);
  Launchers job({.moment = "unstarted", .victims = "2,3", .program = program});
  for (const char* node : {"0", "1"}) job.start({"--node-rank", node}, {{"TEST_PROGRAM", program}});
  for (const int rank : {2, 3}) {
    ASSERT_TRUE(job[1].until_err_has(fmt::format("rank {} was not started again (cannot run \"{}\": ", rank, program))) << job[1].err();
  }
  std::filesystem::create_symlink(FAULT_RANK, program);
  for (const auto& launcher : job.all()) EXPECT_EQ(launcher->wait(longest_training), 0) << launcher->out() << launcher->err();
  job.expect_done(4);
  job.expect_nothing_left_of_all();
}

// A rank that did not answer is left out by the others, and its own launcher hears of it.
TEST(ElasticHosts, ElasticHostsEndAProcessThatWasLeftOut) {
  Launchers job({.steps = 80, .moment = "stop", .victims = "2"});
  const Variables brief{{"TEST_SILENCE_MS", "1000"}, {"TEST_INIT_TIMEOUT_MS", "6000"}};
  job.start({"--node-rank", "0"}, brief);
  job.start({"--node-rank", "1"}, brief);
  for (const auto& launcher : job.all()) EXPECT_EQ(launcher->wait(longest_training), 0) << launcher->out() << launcher->err();
  job.expect_done(4);
  EXPECT_EQ(count(job[1].err(), "the others go on without rank 2"), 1) << job[1].err();
  job.expect_nothing_left_of_all();
}

TEST(ElasticHosts, ElasticHostsEndWhereTooFewRanksAreLeft) {
  Launchers job({.ranks = "2:2", .restarts = 0, .moment = "small", .victims = "3", .grace = "2"});
  job.start_two();
  for (const auto& launcher : job.all()) {
    EXPECT_EQ(launcher->wait(), 137) << launcher->err();
    EXPECT_EQ(count(launcher->err(), "fewer than 4 ranks are left"), 1) << launcher->err();
    EXPECT_EQ(count(launcher->err(), "first cause: rank 3 "), 1) << launcher->err();
  }
  job.expect_nothing_left_of_all();
}

// Nobody can go on without a rank that dies before all have met: all ranks start again, on all hosts, where a restart is left.
TEST(ElasticHosts, ElasticHostsStartAgainAfterADeathBeforeTheMeeting) {
  Launchers job({.restarts = 1, .moment = "meeting", .victims = "1", .grace = "2"});
  job.start_two();
  for (const auto& launcher : job.all()) {
    EXPECT_EQ(launcher->wait(longest_training), 0) << launcher->out() << launcher->err();
    EXPECT_EQ(count(launcher->err(), "first cause: rank 1 "), 1) << launcher->err();
    EXPECT_EQ(count(launcher->err(), "restart 1 of 1 in 1 s"), 1) << launcher->err();
  }
  EXPECT_EQ(count(job.out(), "places 0,1,2,3, sizes 4\n"), 4) << job.out();
  job.expect_nothing_left_of_all();
}

// A host that the job needs is lost: --nnodes is a single number.
TEST(ElasticHosts, AJobEndsWithAHostOfAFixedNumber) {
  Launchers job({.steps = 1000000000, .moment = "test", .grace = "1"});
  job.start_two();
  for (const auto& launcher : job.all()) ASSERT_TRUE(launcher->until_out_has("under way", 2)) << launcher->err();
  job[1].send(SIGKILL);
  EXPECT_EQ(job[0].wait(), 1) << job[0].err();
  EXPECT_EQ(count(job[0].err(), "first cause: the launcher at "), 1) << job[0].err();
  job.expect_nothing_left_of_all();
}

// The first launcher to come listens at the address, and is host 0.
TEST(ElasticHosts, ElasticHostsTakeAHostInThatComesLater) {
  COVERS("TS-50");
  for (const int ranks : {1, 2}) {
    Launchers job({.nodes = "1:2", .ranks = std::to_string(ranks), .size = 2 * ranks, .moment = "place", .step = 2 * ranks - 1});
    job.start();
    ASSERT_TRUE(job[0].until_out_has("under way", ranks)) << job[0].err();
    job.start();
    for (const auto& launcher : job.all()) EXPECT_EQ(launcher->wait(longest_training), 0) << launcher->out() << launcher->err();
    job.expect_done(2 * ranks, {}, fmt::format("{},{}", ranks, 2 * ranks));
    EXPECT_EQ(count(job[0].err(), " has come; the job has 2 hosts now"), 1) << job[0].err();
    job.expect_nothing_left_of_all();
  }
}

// Its death is no reason for the ranks of the start not to meet: they do not wait for it.
TEST(ElasticHosts, ElasticHostsMeetAlthoughANewcomerOfALaterHostHasDied) {
  Launchers job({.nodes = "1:2", .ranks = "2", .moment = "late", .step = 2});
  job.start();
  ASSERT_TRUE(job[0].until_out_has("ready ", 2)) << job[0].err();
  job.start();
  for (const auto& launcher : job.all()) EXPECT_EQ(launcher->wait(longest_training), 0) << launcher->out() << launcher->err();
  job.expect_done(4);
  EXPECT_EQ(count(job[1].err(), "rank 2 ended by SIGKILL; another process takes its place in 2 s (restart 1 of 6)"), 1) << job[1].err();
  job.expect_nothing_left_of_all();
}

/// Starts so many launchers, until the ranks of all are under way together.
void begin(Launchers& job, int launchers) {
  for (int i = 0; i < launchers; ++i) job.start({"--node-rank", i == 0 ? "0" : "1"});
  for (const auto& launcher : job.all()) ASSERT_TRUE(launcher->until_out_has("under way", 2)) << launcher->err();
}

// A host is lost with its launcher, the ranks of the others go on, and another host takes part instead. Its ranks have places of their own.
TEST(ElasticHosts, ElasticHostsGoOnWithoutAHostAndTakeAnotherIn) {
  COVERS("TS-50");
  Launchers job({.nodes = "2:3", .ranks = "2", .size = 6, .moment = "place", .step = 7});
  begin(job, 3);
  job[2].send(SIGKILL);
  ASSERT_TRUE(job[0].until_err_has("; the job goes on with 2 hosts\n")) << job[0].err();
  job.start();
  for (const std::size_t left : {0U, 1U, 3U}) EXPECT_EQ(job[left].wait(longest_training), 0) << job[left].out() << job[left].err();
  job.expect_done(6, {}, "6,4,6");
  EXPECT_EQ(count(job[0].err(), "takes its place"), 0) << "a host that is lost costs no restart: " << job[0].err();
  job.expect_nothing_left_of_all();
}

// A host that is taken back gets SIGTERM, and leaves the job to the others.
TEST(ElasticHosts, ElasticHostsGoOnWithoutAHostThatLeaves) {
  COVERS("TS-50");
  Launchers job({.nodes = "1:2", .ranks = "2", .moment = "place", .step = 5});
  begin(job, 2);
  job[1].send(SIGTERM);
  EXPECT_EQ(job[1].wait(), 143) << job[1].err();
  EXPECT_EQ(count(job[1].err(), "SIGTERM: this host leaves the job"), 1) << job[1].err();
  ASSERT_TRUE(job[0].until_err_has(" has left; the job goes on with 1 host\n")) << job[0].err();
  job.start();
  for (const std::size_t left : {0U, 2U}) EXPECT_EQ(job[left].wait(longest_training), 0) << job[left].out() << job[left].err();
  job.expect_done(4, {}, "4,2,4");
  job.expect_nothing_left_of_all();
}

// All ranks of a host are lost, and its launcher waits for the end of the job. It may leave, or be lost, at any time: its place is free then.
TEST(ElasticHosts, ElasticHostsGoOnWithoutAHostWhoseRanksWereLostBefore) {
  COVERS("TS-50");
  for (const int signal : {SIGTERM, SIGKILL}) {
    const std::uint16_t port = free_port();
    Launchers job({.nodes = "1:2", .ranks = "2", .restarts = 0, .moment = "place", .step = 5},
                  {"--master-addr", "127.0.0.1", "--master-port", std::to_string(port)});
    begin(job, 2);
    for (const int rank : {2, 3}) {
      ::kill(pid_of(job[1], rank), SIGKILL);
      ASSERT_TRUE(job[1].until_err_has(fmt::format("rank {} ended by SIGKILL", rank))) << job[1].err();
    }
    const base::Deadline deadline(std::chrono::seconds(30));
    const auto store = store::connect_tcp(base::resolve("127.0.0.1", port), "the launchers' store", {}, deadline);
    EXPECT_NE(store->get("launchers/attempt/0/ends/1", deadline.left()), "") << "its launcher waits";
    job[1].send(signal);
    EXPECT_EQ(job[1].wait(), 128 + signal) << job[1].err();
    ASSERT_TRUE(job[0].until_err_has("; the job goes on with 1 host\n")) << job[0].err();
    EXPECT_EQ(count(job[0].err(), signal == SIGTERM ? " has left; the job" : " is lost (the connection to it ended); the job"), 1) << job[0].err();
    job.start();
    for (const std::size_t left : {0U, 2U}) EXPECT_EQ(job[left].wait(longest_training), 0) << job[left].out() << job[left].err();
    job.expect_done(4);
    job.expect_nothing_left_of_all();
  }
}

// The ranks of a host have not come to the meeting when it is lost. Those that wait for them hear of it at once.
TEST(ElasticHosts, AJobEndsWithAHostThatIsLostBeforeTheRanksMeet) {
  Launchers job({.nodes = "1:2", .ranks = "2", .restarts = 0, .moment = "absent", .victims = "2,3", .grace = "2"});
  job.start_two();
  for (const auto& launcher : job.all()) ASSERT_TRUE(launcher->until_out_has("ready ", 2)) << launcher->err();
  job[1].send(SIGKILL);
  EXPECT_EQ(job[0].wait(), 3) << job[0].out() << job[0].err();
  EXPECT_EQ(count(job[0].out(), "error PeerFailed cause=disconnected culprit=2 "), 2) << job[0].out();
  EXPECT_EQ(count(job[0].out(), "the launcher of rank 2 and the other ranks of its host is lost, before all ranks had joined"), 2) << job[0].out();
  job.expect_nothing_left_of_all();
}

// A host more than MAX waits, and takes the place of one that is lost.
TEST(ElasticHosts, ElasticHostsKeepAHostThatIsOneTooMany) {
  Launchers job({.nodes = "1:2", .ranks = "2", .moment = "place", .step = 5});
  begin(job, 2);
  job.start();
  ASSERT_TRUE(job[2].until_err_has("waiting for host 0 at 127.0.0.1:")) << job[2].err();
  EXPECT_EQ(job[2].out(), "");
  job[1].send(SIGKILL);
  for (const std::size_t left : {0U, 2U}) EXPECT_EQ(job[left].wait(longest_training), 0) << job[left].out() << job[left].err();
  job.expect_done(4);
  job.expect_nothing_left_of_all();
}

TEST(ElasticHosts, ElasticHostsEndWhereTooFewHostsAreLeft) {
  Launchers job({.nodes = "2:3", .ranks = "2", .steps = 1000000000, .moment = "place", .step = 99, .grace = "1"});
  begin(job, 2);
  job[1].send(SIGKILL);
  EXPECT_EQ(job[0].wait(), 1) << job[0].err();
  EXPECT_EQ(count(job[0].err(), "first cause: the launcher at "), 1) << job[0].err();
  job.expect_nothing_left_of_all();
}

// Host 0 has the job's store: without it the others end.
TEST(ElasticHosts, AJobEndsWithHostZero) {
  Launchers job({.nodes = "1:2", .ranks = "2", .steps = 1000000000, .moment = "place", .step = 99, .grace = "1"});
  begin(job, 2);
  job[0].send(SIGKILL);
  EXPECT_EQ(job[1].wait(), 1) << job[1].err();
  EXPECT_EQ(count(job[1].err(), "first cause: the launcher at "), 1) << job[1].err();
  job.expect_nothing_left_of_all();
}

// Ctrl-C ends the job on all hosts, wherever it comes.
TEST(ElasticHosts, ElasticHostsAreAllEndedByCtrlC) {
  Launchers job({.nodes = "1:2", .ranks = "2", .steps = 1000000000, .moment = "place", .step = 99, .grace = "1"});
  begin(job, 2);
  job[1].send(SIGINT);
  for (const auto& launcher : job.all()) EXPECT_EQ(launcher->wait(), 130) << launcher->err();
  job.expect_nothing_left_of_all();
}

// The launcher of host 0 has no rank any more. It still decides when too few are left, and hears of the end of the others.
TEST(ElasticHosts, AJobEndsWithHostZeroThatHasNoRanksLeft) {
  for (const bool by_signal : {false, true}) {
    Launchers job({.restarts = 0, .steps = 1000000000, .moment = "place", .step = 99, .grace = "2"});
    job.start_two();
    for (const auto& launcher : job.all()) ASSERT_TRUE(launcher->until_out_has("under way", 2)) << launcher->err();
    for (const int rank : {0, 1}) {
      ::kill(pid_of(job[0], rank), SIGKILL);
      ASSERT_TRUE(job[0].until_err_has(fmt::format("rank {} ended by SIGKILL", rank))) << job[0].err();
    }
    if (by_signal) job[1].send(SIGINT);
    else ::kill(pid_of(job[1], 2), SIGKILL);
    for (const auto& launcher : job.all()) EXPECT_EQ(launcher->wait(std::chrono::seconds(25)), by_signal ? 130 : 137) << launcher->err();
    job.expect_nothing_left_of_all();
  }
}

// Fewer than MIN hosts come: the launcher says so after three seconds, and how many there are.
TEST(ElasticHosts, ElasticHostsWaitForTheLeastNumber) {
  Launchers job({.nodes = "2:3", .ranks = "2", .moment = "small"});
  RunningCommand& alone = job.start({}, {{"UNISONO_TIMEOUT", "9"}});
  EXPECT_EQ(alone.wait(), 1);
  EXPECT_EQ(count(alone.err(), "1 of 3 have come, and 2 are enough"), 1) << alone.err();
  EXPECT_NE(alone.err().find("1 of at least 2 hosts have come"), std::string::npos) << alone.err();
}

}  // namespace
}  // namespace unisono::testing
