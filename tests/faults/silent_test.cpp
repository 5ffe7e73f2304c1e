// Ranks that are alive and do not come: S1, S2, S6, monitored_barrier, and what waiting for them costs.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "faults.h"

namespace unisono::testing {
namespace {

using std::chrono::milliseconds;

RunningCommand::Options with(Variables variables) { return {.environment = std::move(variables)}; }

class Stopped : public ::testing::TestWithParam<std::string> {};

TEST_P(Stopped, S1ARankThatStopsForAWhileIsNoFailure) {
  RunningCommand job(faulty_job(3, {"work", GetParam(), "2"}));
  ASSERT_TRUE(job.until_out_has("under way", 3)) << job.err();
  const pid_t stopped = pid_of(job, 1);
  ::kill(stopped, SIGSTOP);
  EXPECT_FALSE(job.until([&] { return count(job.out(), "error") > 0; }, milliseconds(2000))) << job.out();
  ::kill(stopped, SIGCONT);
  // Every result is checked by the ranks; that they go on until rank 2 dies is seen by who is blamed.
  EXPECT_FALSE(job.until([&] { return count(job.out(), "error") > 0; }, milliseconds(300))) << job.out();
  ::kill(pid_of(job, 2), SIGKILL);
  EXPECT_EQ(job.wait(std::chrono::seconds(50)), 137) << job.out() << job.err();
  for (const int r : {0, 1}) EXPECT_EQ(word_after(line_of(lines_of_rank(job, r), "error "), "culprit="), "2") << job.out();
  EXPECT_EQ(count(job.out(), "wrong result"), 0) << job.out();
}

TEST_P(Stopped, S2ARankThatStopsForEverIsAFailureThatNamesIt) {
  RunningCommand job(faulty_job(3, {"work", GetParam(), "1"}, {"--grace", "5"}), with({{"TEST_SILENCE_MS", "1500"}}));
  ASSERT_TRUE(job.until_out_has("under way", 3)) << job.err();
  ::kill(pid_of(job, 1), SIGSTOP);
  EXPECT_EQ(job.wait(std::chrono::seconds(60)), 3) << job.out() << job.err();
  for (const int r : {0, 2}) {
    const auto lines = lines_of_rank(job, r);
    const std::string error = line_of(lines, "error ");
    EXPECT_TRUE(error.starts_with("PeerFailed cause=silent culprit=1 ")) << error;
    EXPECT_NE(error.find("has been stopped for 1.5 s"), std::string::npos) << error;
    expect_later_calls_threw_the_same(lines);
  }
  EXPECT_NE(job.err().find("is stopped; it counts as failed after 1.5 s"), std::string::npos) << job.err();
  expect_no_crash(job);
  expect_nothing_left(job_id(job));
}
INSTANTIATE_TEST_SUITE_P(Faults, Stopped, ::testing::Values("small", "large"), [](const auto& one) { return one.param; });

class StoppedElsewhere : public ::testing::TestWithParam<std::string> {};

// Stopped between two calls: those that wait for it, by then or later, are told.
TEST_P(StoppedElsewhere, S2ARankThatStopsForEverIsAFailureThatNamesIt) {
  RunningCommand job(faulty_job(3, {"work", GetParam(), "1"}, {"--grace", "60"}), with({{"TEST_SILENCE_MS", "1500"}}));
  ASSERT_TRUE(job.until_out_has("under way", 3)) << job.err();
  if (GetParam() == "async") {
    ASSERT_TRUE(job.until_out_has("pending", 2)) << job.out() << job.err();
  }
  ::kill(pid_of(job, 1), SIGSTOP);
  if (GetParam() != "recv") {
    for (const int r : {0, 2}) ::kill(pid_of(job, r), SIGUSR1);
  }
  kill_after_the_others(job, 1, {0, 2});
  EXPECT_EQ(job.wait(std::chrono::seconds(50)), 137) << job.out() << job.err();
  for (const int r : {0, 2}) {
    const auto lines = lines_of_rank(job, r);
    EXPECT_TRUE(line_of(lines, "error ").starts_with("PeerFailed cause=silent culprit=1 ")) << job.out();
    expect_later_calls_threw_the_same(lines);
  }
  expect_no_crash(job);
  expect_nothing_left(job_id(job));
}
INSTANTIATE_TEST_SUITE_P(Faults, StoppedElsewhere, ::testing::Values("idle", "async", "recv"), [](const auto& one) { return one.param; });

class StoppedBeforeADeadline : public ::testing::TestWithParam<bool> {};

// The deadline of the calls is shorter than the patience with silent ranks. A rank that is late is missing at the deadline; one that is known to be
// silent is named as such, before it.
TEST_P(StoppedBeforeADeadline, S2ARankThatStopsBeforeADeadlineIsNamedAsSilent) {
  const bool over_tcp = GetParam();
  Variables variables{{"TEST_INIT_TIMEOUT_MS", "12000"}};
  if (over_tcp) variables["TEST_HOSTS"] = one_host_each(3);
  RunningCommand job(faulty_job(3, {"work", "small", "1"}, {"--grace", "60"}), with(variables));
  ASSERT_TRUE(job.until_out_has("under way", 3)) << job.err();
  ::kill(pid_of(job, 1), SIGSTOP);
  kill_after_the_others(job, 1, {0, 2});
  EXPECT_EQ(job.wait(std::chrono::seconds(50)), 137) << job.out() << job.err();
  for (const int r : {0, 2}) {
    const auto lines = lines_of_rank(job, r);
    const std::string error = line_of(lines, "error ");
    EXPECT_TRUE(error.starts_with("PeerFailed cause=silent culprit=1 ")) << error;
    EXPECT_NE(error.find("has been stopped for 6 s"), std::string::npos) << error;
    expect_later_calls_threw_the_same(lines);
  }
  expect_nothing_left(job_id(job));
}
INSTANTIATE_TEST_SUITE_P(Faults, StoppedBeforeADeadline, ::testing::Bool(),
                         [](const auto& one) { return std::string(one.param ? "OverTcp" : "InMemory"); });

TEST(Silent, S2ASilentRankZeroIsNamedWithoutALauncher) {
  DirectJob job(DirectJob::Method::env, 3, {"work", "small", "1"}, {{"TEST_SILENCE_MS", "1500"}});
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(job[r].until_out_has("under way")) << job[r].out() << job[r].err();
  job[0].send(SIGSTOP);
  for (const int r : {1, 2}) {
    EXPECT_EQ(job[r].wait(std::chrono::seconds(50)), 3) << job[r].out() << job[r].err();
    const std::string error = line_of(lines_of(job[r].out()), "error ");
    EXPECT_TRUE(error.starts_with("PeerFailed cause=silent culprit=0 ")) << error;
  }
  // It wakes into a group that is over, and learns it at once.
  job[0].send(SIGCONT);
  EXPECT_EQ(job[0].wait(std::chrono::seconds(50)), 3) << job[0].out() << job[0].err();
  const std::string error = line_of(lines_of(job[0].out()), "error ");
  EXPECT_TRUE(error.starts_with("PeerFailed cause=silent culprit=0 ")) << error;
}

struct Absence {
  std::string ranks, operation;
};

class NeverCalls : public ::testing::TestWithParam<Absence> {};

// S6, F20: all that wait name those that did not come, and these meet the same Timeout when they do.
TEST_P(NeverCalls, S6ACallThatARankNeverMakesIsATimeoutThatNamesTheMissing) {
  const auto& [ranks, operation] = GetParam();
  RunningCommand job(faulty_job(4, {"missing", ranks, operation}));
  const auto is_missing = [&, text = "," + ranks + ","](int r) { return text.find(fmt::format(",{},", r)) != std::string::npos; };
  int waiting = 0;
  for (int r = 0; r < 4; ++r) waiting += is_missing(r) ? 0 : 1;
  ASSERT_TRUE(job.until_out_has("took", waiting)) << job.out() << job.err();
  for (int r = 0; r < 4; ++r) {
    if (is_missing(r)) ::kill(pid_of(job, r), SIGUSR1);
  }
  EXPECT_EQ(job.wait(std::chrono::seconds(50)), 3) << job.out() << job.err();
  for (int r = 0; r < 4; ++r) {
    const auto lines = lines_of_rank(job, r);
    const std::string error = line_of(lines, "error ");
    EXPECT_TRUE(error.starts_with(fmt::format("Timeout missing={} ", ranks))) << "rank " << r << ": " << error;
    EXPECT_NE(error.find("within 2000 ms"), std::string::npos) << error;
    EXPECT_EQ(word_after(error, "op="), is_missing(r) || operation == "all_reduce" ? "all_reduce" : "barrier") << error;
    EXPECT_NE(word_after(error, "seq="), "0") << error;
    expect_later_calls_threw_the_same(lines);
  }
  expect_no_crash(job);
  expect_nothing_left(job_id(job));
}
INSTANTIATE_TEST_SUITE_P(Faults, NeverCalls,
                         ::testing::Values(Absence{"1", "all_reduce"}, Absence{"0", "all_reduce"}, Absence{"1,3", "monitored"},
                                           Absence{"0,1,2", "monitored"}));

// A wait of a second must not cost a second of a processor.
TEST(Silent, WaitingForASilentRankIsIdle) {
  RunningCommand job(faulty_job(2, {"idle-cost"}));
  for (int round = 1; round <= 2; ++round) {
    ASSERT_TRUE(job.until_out_has("late", round)) << job.out() << job.err();
    EXPECT_FALSE(job.until([&] { return count(job.out(), "busy") >= round; }, milliseconds(1000)));
    ::kill(pid_of(job, 1), SIGUSR1);
    ASSERT_TRUE(job.until_out_has("busy", round)) << job.out() << job.err();
  }
  EXPECT_EQ(job.wait(), 0) << job.err();
  for (const auto& line : lines_of_rank(job, 0)) {
    if (line.starts_with("busy ")) {
      EXPECT_LT(std::stoi(line.substr(5)), 10) << line;
    }
  }
}

}  // namespace
}  // namespace unisono::testing
