// Ranks that die at one exact place: between a payload and its flag, in the middle of a payload, at a call of the system while ranks meet, connect,
// work asynchronously and finalize. K1, K2, K6.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <ostream>

#include "failing/failing_calls.h"
#include "invariants.h"
#include "store_trap.h"

namespace unisono::testing {
namespace {

using std::chrono::seconds;

/// A death by a write of the victim's own.
struct Write {
  std::string where;
  int ranks, victim;
};

std::ostream& operator<<(std::ostream& out, const Write& write) { return out << write.where; }

class DiesAtAWrite : public ::testing::TestWithParam<Write> {};

TEST_P(DiesAtAWrite, OthersTakeNothingTorn) {
  const Write& write = GetParam();
  if (!has_store_traps()) GTEST_SKIP() << "skipped: this processor has no single step that a process may take by itself";
  RunningCommand job(faulty_job(write.ranks, {"die", write.where, std::to_string(write.victim)}, {"--grace", "60"}));
  expect_ending(job, {.ranks = write.ranks, .culprits = {write.victim}});
}

std::vector<Write> writes() {
  std::vector<Write> all;
  for (const int ranks : {2, 4, 7}) {
    for (const int victim : {0, ranks - 1}) all.push_back({"flag", ranks, victim});
    all.push_back({"payload", ranks, 1});
  }
  all.push_back({"flag", 4, 1});
  all.push_back({"async", 4, 1});
  all.push_back({"async", 4, 0});
  all.push_back({"finalize", 2, 1});
  all.push_back({"finalize", 4, 0});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Faults, DiesAtAWrite, ::testing::ValuesIn(writes()),
                         [](const auto& one) { return fmt::format("{}_rank{}of{}", one.param.where, one.param.victim, one.param.ranks); });

/// A death in the place of a call of the system.
struct Call {
  std::string name;
  int nth, ranks, victim;
  std::string backend;
};

std::ostream& operator<<(std::ostream& out, const Call& call) { return out << call.name << " " << call.nth; }

RunningCommand::Options striking(const Call& call, const std::string& mark, int deed, bool waits = false) {
  RunningCommand::Options options{.environment = {{"LD_PRELOAD", FAILING_CALLS},
                                                  {"FAILING_CALL", fmt::format("{}:{}:{}", call.name, call.nth, deed)},
                                                  {"FAILING_CALL_RANK", std::to_string(call.victim)},
                                                  {"FAILING_CALL_MARK", mark},
                                                  {"TEST_INIT_BACKEND", call.backend}}};
  if (waits) options.environment.insert({"FAILING_CALL_WAITS", "1"});
  return options;
}

std::string name_of(const ::testing::TestParamInfo<Call>& one) {
  return fmt::format("{}_{}_{}_rank{}of{}", one.param.backend, one.param.name, one.param.nth, one.param.victim, one.param.ranks);
}

class DiesWhileJoining : public ::testing::TestWithParam<Call> {};

TEST_P(DiesWhileJoining, OthersAreToldOfADeathWhileJoining) {
  const Call& call = GetParam();
  const TemporaryFolder folder;
  RunningCommand job(faulty_job(call.ranks, {"join-only"}, {"--grace", "60"}), striking(call, folder.path() + "/struck", killed));
  ASSERT_TRUE(job.until([&] { return ::access((folder.path() + "/struck").c_str(), F_OK) == 0; })) << job.out() << job.err();
  expect_ending(job, {.ranks = call.ranks, .culprits = {call.victim}, .has_joined = false});
}

INSTANTIATE_TEST_SUITE_P(Store, DiesWhileJoining, ::testing::Values(Call{"send", 1, 4, 1, "native"}, Call{"send", 2, 4, 0, "native"}), name_of);
INSTANTIATE_TEST_SUITE_P(Memory, DiesWhileJoining,
                         ::testing::Values(Call{"memfd_create", 1, 4, 0, "native"}, Call{"accept4", 1, 4, 0, "native"},
                                           Call{"accept4", 2, 4, 0, "native"}, Call{"recvmsg", 1, 4, 1, "native"},
                                           Call{"recvmsg", 1, 7, 6, "native"}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Connections, DiesWhileJoining,
                         ::testing::Values(Call{"connect", 1, 4, 0, "tcp"}, Call{"connect", 2, 4, 1, "tcp"}, Call{"listen", 1, 4, 1, "tcp"},
                                           Call{"accept4", 1, 4, 3, "tcp"}, Call{"accept4", 3, 7, 6, "tcp"}, Call{"accept4", 1, 2, 1, "tcp"}),
                         name_of);

class StopsWhileJoining : public ::testing::TestWithParam<Call> {};

// S2: nobody of the group watches it yet, so the time to join ends it; all others name it.
TEST_P(StopsWhileJoining, OthersNameARankThatStopsWhileJoining) {
  const Call& call = GetParam();
  const TemporaryFolder folder;
  auto options = striking(call, folder.path() + "/struck", stopped);
  options.environment.insert({{"TEST_INIT_TIMEOUT_MS", "5000"}, {"TEST_SILENCE_MS", "1000"}});
  RunningCommand job(faulty_job(call.ranks, {"join-only"}, {"--grace", "2"}), options);
  ASSERT_TRUE(job.until([&] { return ::access((folder.path() + "/struck").c_str(), F_OK) == 0; })) << job.out() << job.err();
  EXPECT_EQ(job.wait(seconds(50)), 3) << job.out() << job.err();
  for (int r = 0; r < call.ranks; ++r) {
    if (r == call.victim) continue;
    const std::string error = line_of(lines_of_rank(job, r), "error ");
    const bool is_missed = error.starts_with(fmt::format("Timeout missing={} ", call.victim));
    EXPECT_TRUE(is_missed || (error.starts_with("PeerFailed ") && word_after(error, "culprit=") == std::to_string(call.victim)))
        << "rank " << r << ": " << error;
  }
  expect_no_crash(job);
}

INSTANTIATE_TEST_SUITE_P(Store, StopsWhileJoining, ::testing::Values(Call{"send", 1, 4, 1, "native"}), name_of);
INSTANTIATE_TEST_SUITE_P(Memory, StopsWhileJoining, ::testing::Values(Call{"recvmsg", 1, 4, 1, "native"}, Call{"accept4", 1, 4, 0, "native"}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Connections, StopsWhileJoining, ::testing::Values(Call{"connect", 1, 4, 0, "tcp"}, Call{"accept4", 1, 4, 3, "tcp"}),
                         name_of);

class LauncherGoneWhileJoining : public ::testing::TestWithParam<Call> {};

// A rank is at that call, and stopped, when the launcher is killed. All ranks are gone, and what they have started as well, which sees nothing of it;
// it ignores the SIGHUP that the system sends to a stopped rank's group without a parent.
TEST_P(LauncherGoneWhileJoining, K7AllRanksAreGone) {
  const Call& call = GetParam();
  const TemporaryFolder folder;
  const std::string rank = std::string("trap '' HUP; sleep 100 & exec ") + FAULT_RANK + " join-only";
  RunningCommand job(unisono_command({"run", "-n", std::to_string(call.ranks), "--", "/bin/sh", "-c", rank}),
                     striking(call, folder.path() + "/struck", stopped));
  ASSERT_TRUE(job.until([&] { return ::access((folder.path() + "/struck").c_str(), F_OK) == 0 && count(job.out(), "here ") == call.ranks; }))
      << job.out() << job.err();
  const std::string pid = word_after(job.out(), "[0] here ");
  const std::string id = word_after(job.out(), "[0] here " + pid + " ");
  EXPECT_EQ(processes_of_job(id).size(), 2 * static_cast<std::size_t>(call.ranks));
  job.send(SIGKILL);
  EXPECT_EQ(job.wait(), 137);
  expect_nothing_left(id);
}

INSTANTIATE_TEST_SUITE_P(Memory, LauncherGoneWhileJoining, ::testing::Values(Call{"recvmsg", 1, 4, 1, "native"}, Call{"accept4", 1, 4, 0, "native"}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Connections, LauncherGoneWhileJoining, ::testing::Values(Call{"connect", 1, 4, 0, "tcp"}, Call{"accept4", 1, 4, 3, "tcp"}),
                         name_of);

class DiesInFinalize : public ::testing::TestWithParam<Call> {};

TEST_P(DiesInFinalize, OthersAreToldOfADeathInFinalize) {
  const Call& call = GetParam();
  const TemporaryFolder folder;
  RunningCommand job(faulty_job(call.ranks, {"die-in-finalize", std::to_string(call.victim)}, {"--grace", "60"}),
                     striking(call, folder.path() + "/struck", killed, true));
  ASSERT_TRUE(job.until([&] { return ::access((folder.path() + "/struck").c_str(), F_OK) == 0; })) << job.out() << job.err();
  // It may have told some of them already that it leaves.
  expect_ending(job, {.ranks = call.ranks, .culprits = {call.victim}, .causes = {"killed", "disconnected"}});
}

INSTANTIATE_TEST_SUITE_P(Faults, DiesInFinalize,
                         ::testing::Values(Call{"sendmsg", 1, 4, 1, "tcp"}, Call{"sendmsg", 1, 4, 0, "tcp"}, Call{"sendmsg", 1, 2, 1, "tcp"},
                                           Call{"sendmsg", 4, 7, 3, "tcp"}),
                         name_of);

class StopsInFinalize : public ::testing::TestWithParam<Call> {};

// The others wait for it in a call. It may have told some of them already that it leaves.
TEST_P(StopsInFinalize, S2OthersNameIt) {
  const Call& call = GetParam();
  const TemporaryFolder folder;
  auto options = striking(call, folder.path() + "/struck", stopped, true);
  options.environment.insert({"TEST_SILENCE_MS", "1500"});
  RunningCommand job(faulty_job(call.ranks, {"die-in-finalize", std::to_string(call.victim)}, {"--grace", "60"}), options);
  ASSERT_TRUE(job.until([&] { return ::access((folder.path() + "/struck").c_str(), F_OK) == 0; })) << job.out() << job.err();
  std::vector<int> others;
  for (int r = 0; r < call.ranks; ++r) {
    if (r != call.victim) others.push_back(r);
  }
  kill_after_the_others(job, call.victim, others);
  EXPECT_EQ(job.wait(seconds(50)), 137) << job.out() << job.err();
  for (const int r : others) {
    const auto lines = lines_of_rank(job, r);
    const std::string error = line_of(lines, "error "), cause = word_after(error, "cause=");
    EXPECT_TRUE(error.starts_with("PeerFailed ") && word_after(error, "culprit=") == std::to_string(call.victim)) << job.out();
    EXPECT_TRUE(cause == "silent" || cause == "disconnected") << job.out();
    expect_later_calls_threw_the_same(lines);
  }
  expect_no_crash(job);
  expect_nothing_left(job_id(job));
}

INSTANTIATE_TEST_SUITE_P(Faults, StopsInFinalize,
                         ::testing::Values(Call{"sendmsg", 1, 4, 1, "tcp"}, Call{"sendmsg", 1, 4, 0, "tcp"}, Call{"sendmsg", 1, 2, 1, "tcp"}),
                         name_of);

// The watchdog stops before it has left the launcher's process group. The end of an outer job would end it with the launcher, so there must be no
// rank yet that nobody would end.
TEST(Launcher, K7NoRankStartsBeforeTheWatchdogIsApart) {
  const TemporaryFolder folder;
  const std::string mark = folder.path() + "/struck";
  RunningCommand job(
      run_helper({"-n", "2"}, {"rest"}),
      {.environment = {{"LD_PRELOAD", FAILING_CALLS}, {"FAILING_CALL", fmt::format("setsid:1:{}", stopped)}, {"FAILING_CALL_MARK", mark}}});
  ASSERT_TRUE(job.until([&] { return ::access(mark.c_str(), F_OK) == 0; })) << job.err();
  EXPECT_FALSE(job.until([&] { return count(job.out(), "ready") > 0; }, std::chrono::milliseconds(500))) << job.out();
  const auto are_ready = [&] {
    ::kill(-job.pid(), SIGCONT);  // again and again: it may come before the stop
    return count(job.out(), "ready") == 2;
  };
  ASSERT_TRUE(job.until(are_ready)) << job.out() << job.err();
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 143) << job.err();
}

}  // namespace
}  // namespace unisono::testing
