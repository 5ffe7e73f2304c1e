// Ranks that die: K1 … K5, K7. Survivors learn who and how, at once, and end by themselves; nothing is left.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "faults.h"

namespace unisono::testing {
namespace {

struct Death {
  std::string name;
  std::vector<int> victims;
  std::string moment;
};

std::string joined(const std::vector<int>& ranks) { return fmt::format("{}", fmt::join(ranks, ",")); }
bool is_victim(const Death& death, int rank) { return std::find(death.victims.begin(), death.victims.end(), rank) != death.victims.end(); }

/// The error of one survivor: who killed rank looks like, where, and in which call.
void expect_named(const std::string& error, const Death& death) {
  EXPECT_TRUE(error.starts_with("PeerFailed cause=killed ")) << error;
  EXPECT_TRUE(is_victim(death, std::stoi(word_after(error, "culprit=")))) << error;
  EXPECT_NE(word_after(error, "host="), "") << error;
  EXPECT_EQ(word_after(error, "group="), "world") << error;
  EXPECT_NE(error.find("was killed by SIGKILL"), std::string::npos) << error;
}

class Killed : public ::testing::TestWithParam<Death> {
 protected:
  static constexpr int ranks = 4;
};

TEST_P(Killed, SurvivorsLearnWhoAndEndByThemselves) {
  const Death& death = GetParam();
  RunningCommand job(faulty_job(ranks, {"work", death.moment, joined(death.victims)}, {"--grace", "60"}));
  ASSERT_TRUE(job.until_out_has("under way", ranks)) << job.out() << job.err();
  const int survivors = ranks - static_cast<int>(death.victims.size());
  if (death.moment == "async") {
    ASSERT_TRUE(job.until_out_has("pending", survivors));
  }
  std::vector<pid_t> victims, others;
  for (int r = 0; r < ranks; ++r) (is_victim(death, r) ? victims : others).push_back(pid_of(job, r));
  for (const pid_t pid : victims) ::kill(pid, SIGKILL);
  if (death.moment == "async" || death.moment == "idle") {
    for (const pid_t pid : others) ::kill(pid, SIGUSR1);
  }
  // A call has 30 minutes and the launcher leaves a minute: what ends before that ended because of the death.
  EXPECT_EQ(job.wait(std::chrono::seconds(50)), 137) << job.out() << job.err();
  for (int r = 0; r < ranks; ++r) {
    if (is_victim(death, r)) continue;
    const auto lines = lines_of_rank(job, r);
    expect_named(line_of(lines, "error "), death);
    if (death.moment != "finalize") expect_later_calls_threw_the_same(lines);
  }
  EXPECT_EQ(count(job.out(), "SUCCEEDED"), 0) << job.out();
  EXPECT_EQ(count(job.err(), "first cause: rank"), 1) << job.err();
  EXPECT_TRUE(is_victim(death, std::stoi(word_after(job.err(), "first cause: rank ")))) << job.err();
  EXPECT_EQ(count(job.err(), "ended by the launcher"), 0) << job.err();
  expect_no_crash(job);
  expect_nothing_left(job_id(job));
}

std::vector<Death> deaths() {
  std::vector<Death> all;
  for (const char* moment : {"small", "large", "recv", "probe", "send", "small_sends", "async", "idle", "finalize"}) {
    all.push_back({std::string("K1RankOne_") + moment, {1}, moment});
    all.push_back({std::string("K2RankZero_") + moment, {0}, moment});
  }
  for (const char* moment : {"small", "large", "idle"}) all.push_back({std::string("K3Half_") + moment, {1, 3}, moment});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Faults, Killed, ::testing::ValuesIn(deaths()), [](const auto& one) { return one.param.name; });

class KilledWithoutLauncher : public ::testing::TestWithParam<DirectJob::Method> {};

// No launcher, and nobody has waited for the process yet.
TEST_P(KilledWithoutLauncher, K1K2SurvivorsLearnWho) {
  for (const int victim : {1, 0}) {
    DirectJob job(GetParam(), 3, {"work", "small", std::to_string(victim)});
    for (int r = 0; r < job.size(); ++r) ASSERT_TRUE(job[r].until_out_has("under way")) << job[r].out() << job[r].err();
    job[victim].send(SIGKILL);
    std::vector<std::string> culprits;
    for (int r = 0; r < job.size(); ++r) {
      if (r == victim) continue;
      EXPECT_EQ(job[r].wait(std::chrono::seconds(50)), 3) << job[r].out() << job[r].err();
      const auto lines = lines_of(job[r].out());
      const std::string error = line_of(lines, "error ");
      EXPECT_TRUE(error.starts_with("PeerFailed cause=killed ")) << error;
      culprits.push_back(word_after(error, "culprit="));
      expect_later_calls_threw_the_same(lines);
    }
    EXPECT_EQ(culprits[0], culprits[1]);
    // With file:// ranks are given in the order of arrival.
    if (GetParam() != DirectJob::Method::file) {
      EXPECT_EQ(culprits[0], std::to_string(victim));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Faults, KilledWithoutLauncher, ::testing::Values(DirectJob::Method::env, DirectJob::Method::tcp, DirectJob::Method::file));

// Rank 0 serves the store and waits in finalize for the others' goodbye, but not for that of the dead.
TEST(KilledDirectly, K1NobodyWaitsForTheGoodbyeOfTheDead) {
  DirectJob job(DirectJob::Method::env, 3, {"finalize-apart", "0"});
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(job[r].until_out_has("ready")) << job[r].err();
  job[1].send(SIGKILL);
  ASSERT_EQ(job[1].wait(), 137);
  EXPECT_EQ(job[0].wait(std::chrono::seconds(8)), 0) << job[0].err();  // it would wait ten seconds for the living
  EXPECT_EQ(job[0].err(), "");
  job[2].send(SIGUSR1);
  EXPECT_EQ(job[2].wait(std::chrono::seconds(50)), 0) << job[2].err();
}

// Nobody but the rank that looks for a message again and again can tell that none will come.
TEST(KilledDirectly, ARankThatProbesForItsMessageLearnsOfTheDeath) {
  DirectJob job(DirectJob::Method::env, 2, {"work", "probe", "1"});
  for (int r = 0; r < 2; ++r) ASSERT_TRUE(job[r].until_out_has("under way")) << job[r].err();
  job[1].send(SIGKILL);
  EXPECT_EQ(job[0].wait(std::chrono::seconds(50)), 3) << job[0].out() << job[0].err();
  const std::string error = line_of(lines_of(job[0].out()), "error ");
  EXPECT_TRUE(error.starts_with("PeerFailed cause=killed ")) << error;
  EXPECT_EQ(word_after(error, "culprit="), "1");
}

// A shell has waited for the process by the time the others look.
TEST(KilledDirectly, ARankThatItsParentKillsAndReapsAtOnceIsNoticed) {
  const int port = free_port();
  const auto variables = [&](int rank) {
    return RunningCommand::Options{
        .environment = {{"RANK", std::to_string(rank)}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", std::to_string(port)}}};
  };
  RunningCommand survivor(faulty_rank({"work", "idle", "1"}), variables(0));
  RunningCommand victim(faulty_rank({"work", "idle", "1"}), variables(1));
  ASSERT_TRUE(survivor.until_out_has("under way"));
  ASSERT_TRUE(victim.until_out_has("under way"));
  victim.send(SIGKILL);
  ASSERT_EQ(victim.wait(), 137);
  survivor.send(SIGUSR1);
  EXPECT_EQ(survivor.wait(std::chrono::seconds(50)), 3);
  const std::string error = line_of(lines_of(survivor.out()), "error ");
  EXPECT_TRUE(error.starts_with("PeerFailed cause=")) << error;
  EXPECT_EQ(word_after(error, "culprit="), "1");
}

struct End {
  std::string how;
  int code;
  std::string cause, text;
};

class EndsEarly : public ::testing::TestWithParam<End> {};

// K4, K5 (uncaught)
TEST_P(EndsEarly, AnEarlyEndIsSeenByTheOthersAndIsTheExitCode) {
  const End& end = GetParam();
  RunningCommand job(faulty_job(3, {"end", end.how}));
  EXPECT_EQ(job.wait(std::chrono::seconds(50)), end.code) << job.out() << job.err();
  for (const int r : {0, 2}) {
    const auto lines = lines_of_rank(job, r);
    const std::string error = line_of(lines, "error ");
    EXPECT_TRUE(error.starts_with("PeerFailed cause=" + end.cause + " culprit=1 ")) << error;
    EXPECT_NE(error.find(end.text), std::string::npos) << error;
    expect_later_calls_threw_the_same(lines);
  }
  EXPECT_EQ(count(job.err(), "first cause: rank 1"), 1) << job.err();
  if (end.how == "uncaught") {
    EXPECT_NE(job.err().find("ended by SIGABRT: ended with std::runtime_error: nobody catches this"), std::string::npos) << job.err();
    EXPECT_NE(job.err().find("terminate called after throwing an instance of 'std::runtime_error'"), std::string::npos) << "the handler of before";
  }
  if (end.how == "handled") {
    EXPECT_EQ(count(job.out(), "own handler"), 1) << job.out() << job.err();
  }
  if (end.how == "exit-zero" || end.how == "return") {
    EXPECT_EQ(count(job.err(), "left without finalize (exit code 0)"), 1) << job.err();
  }
  expect_nothing_left(job_id(job));
}
INSTANTIATE_TEST_SUITE_P(Faults, EndsEarly,
                         ::testing::Values(End{"segv", 139, "killed", "SIGSEGV"}, End{"abort", 134, "killed", "SIGABRT"},
                                           End{"exit", 7, "exited", "code 7"}, End{"exit-zero", 1, "exited", "code 0"},
                                           End{"return", 1, "exited", "code 0"},
                                           End{"uncaught", 134, "aborted", "rank 1 ended with std::runtime_error: nobody catches this"},
                                           End{"handled", 9, "aborted", "rank 1 ended with std::runtime_error: nobody catches this"}),
                         [](const auto& one) {
                           std::string name = one.param.how;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The process lives on as another program, so nothing of the kernel's says that a rank is gone.
TEST(Exec, K4ExecOfARankIsSeenByTheOthers) {
  RunningCommand job(faulty_job(3, {"end", "exec"}, {"--grace", "1"}));
  EXPECT_NE(job.wait(), 0) << job.out() << job.err();
  DirectJob direct(DirectJob::Method::env, 3, {"end", "exec"});
  for (const int r : {0, 2}) {
    EXPECT_EQ(direct[r].wait(), 3) << direct[r].out();
    for (const auto& lines : {lines_of_rank(job, r), lines_of(direct[r].out())}) {
      const std::string error = line_of(lines, "error ");
      EXPECT_TRUE(error.starts_with("PeerFailed cause=exited culprit=1 ")) << error;
      EXPECT_NE(error.find("has become another program (exec) before finalize"), std::string::npos) << error;
      expect_later_calls_threw_the_same(lines);
    }
  }
  direct[1].send(SIGKILL);
  expect_nothing_left(job_id(job));
}

class LeavesScope : public ::testing::TestWithParam<std::string> {};

// K5: the destructor of the Context tells the peers, and waits for nobody.
TEST_P(LeavesScope, K5PeersLearnThatItGaveUp) {
  RunningCommand job(faulty_job(3, {"scope", GetParam()}));
  ASSERT_TRUE(job.until_out_has("under way", 3)) << job.out() << job.err();
  ::kill(pid_of(job, 1), SIGUSR1);
  EXPECT_EQ(job.wait(std::chrono::seconds(50)), 5) << job.out() << job.err();
  EXPECT_EQ(line_of(lines_of_rank(job, 1), "caught "), "the user's own error, initialized: false");
  for (const int r : {0, 2}) {
    const auto lines = lines_of_rank(job, r);
    const std::string error = line_of(lines, "error ");
    EXPECT_TRUE(error.starts_with("PeerFailed cause=aborted culprit=1 ")) << error;
    EXPECT_NE(error.find("exception"), std::string::npos) << error;
    expect_later_calls_threw_the_same(lines);
  }
  expect_no_crash(job);
  expect_nothing_left(job_id(job));
}
INSTANTIATE_TEST_SUITE_P(Faults, LeavesScope, ::testing::Values("idle", "pending"), [](const auto& one) { return one.param; });

class LauncherGone : public ::testing::TestWithParam<std::string> {};

TEST_P(LauncherGone, K7AllRanksAreGone) {
  RunningCommand job(faulty_job(4, {"work", GetParam(), "1"}));
  ASSERT_TRUE(job.until_out_has("under way", 4)) << job.err();
  const std::string id = job_id(job);
  EXPECT_EQ(processes_of_job(id).size(), 4u);
  job.send(SIGKILL);
  expect_nothing_left(id);
  EXPECT_EQ(job.wait(), 137);
}
INSTANTIATE_TEST_SUITE_P(Faults, LauncherGone, ::testing::Values("small", "large", "recv", "idle", "async", "finalize"),
                         [](const auto& one) { return one.param; });

/// Three of four ranks join, and wait for the one that does not come.
std::vector<std::string> job_without_rank_one() {
  return unisono_command({"run", "-n", "4", "--grace", "2", "--", "/bin/sh", "-c",
                          std::string("if [ $RANK = 1 ]; then echo here; exec sleep 100; fi; exec ") + FAULT_RANK + " join-only"});
}

/// The identity of the job, once all ranks have begun and while nobody has joined.
std::string id_while_joining(RunningCommand& job) {
  EXPECT_TRUE(job.until_out_has("here", 4)) << job.out() << job.err();
  EXPECT_FALSE(job.until([&] { return count(job.out(), "ready") > 0; }, std::chrono::milliseconds(200))) << job.out();
  const std::string pid = word_after(job.out(), "[0] here ");
  return word_after(job.out(), "[0] here " + pid + " ");
}

TEST(LauncherGoneEarly, K7AllRanksAreGoneWhileTheyJoin) {
  RunningCommand job(job_without_rank_one());
  const std::string id = id_while_joining(job);
  EXPECT_EQ(processes_of_job(id).size(), 4u);
  job.send(SIGKILL);
  expect_nothing_left(id);
  EXPECT_EQ(job.wait(), 137);
}

TEST(LauncherGoneEarly, K8ASignalWhileRanksJoinEndsThem) {
  for (const int signal : {SIGTERM, SIGINT}) {
    RunningCommand job(job_without_rank_one());
    const std::string id = id_while_joining(job);
    job.send(signal);
    EXPECT_EQ(job.wait(std::chrono::seconds(50)), 128 + signal) << job.out() << job.err();
    expect_nothing_left(id);
  }
}

}  // namespace
}  // namespace unisono::testing
