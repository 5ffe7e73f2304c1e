// Jobs that go on without lost ranks, and take in the processes that replace them: `unisono run -n MIN:MAX`.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "faults.h"

namespace unisono::testing {
namespace {

struct Elastic {
  std::string ranks = "2:4";
  int restarts = 6;
  int steps = 60, size = 4;
  std::string moment, victims = "-";
  int step = 20;
  std::string grace = "30";
};

std::vector<std::string> command_of(const Elastic& job) {
  return {UNISONO_COMMAND,
          "run",
          "-n",
          job.ranks,
          "--max-restarts",
          std::to_string(job.restarts),
          "--grace",
          job.grace,
          "--",
          FAULT_RANK,
          "elastic",
          std::to_string(job.steps),
          std::to_string(job.size),
          job.moment,
          job.victims,
          std::to_string(job.step)};
}

RunningCommand::Options with(const std::string& backend) {
  Variables variables = end_of_training();
  variables.insert({{"TEST_INIT_BACKEND", backend}, {"UNISONO_LOG", "warning"}});
  return {.environment = variables};
}

/// "ready PID JOB" is the first line of every process.
std::string job_of(const RunningCommand& job) {
  const std::string ready = job.out().substr(job.out().find("ready "));
  return ready.substr(0, ready.find('\n')).substr(ready.find(' ', std::string("ready ").size()) + 1);
}

/// Returns what the first member says of the job at its end: "places 0,2,3,1, sizes 4,3,4".
std::string account_of(const RunningCommand& job) {
  const std::string account = job.out().substr(std::min(job.out().find("places"), job.out().size()));
  return account.substr(0, account.find('\n'));
}

/// All members have ended well, in one group, with the same account of the job.
void expect_done(const RunningCommand& job, int size) {
  EXPECT_EQ(count(job.out(), "WRONG"), 0) << job.out();
  EXPECT_EQ(count(job.out(), "SUCCEEDED"), 0) << job.out();
  EXPECT_EQ(count(job.out(), "done as rank"), size) << job.out() << job.err();
  for (int r = 0; r < size; ++r) EXPECT_EQ(count(job.out(), fmt::format("done as rank {} of {},", r, size)), 1) << job.out();
  ASSERT_NE(account_of(job), "") << job.err();
  EXPECT_EQ(count(job.out(), account_of(job)), size) << job.out();
  expect_no_crash(job);
  expect_nothing_left(job_of(job));
}

struct Loss {
  std::string name;
  Elastic job;
  std::string places;  // of the ranks at the end, in their order
  std::string sizes;   // of the groups that there were
  std::string backend = "native";
};

void PrintTo(const Loss& loss, std::ostream* out) { *out << loss.name; }  // NOLINT(readability-identifier-naming): googletest looks for it

class Lost : public ::testing::TestWithParam<Loss> {};

TEST_P(Lost, TheOthersGoOnAndTakeANewOneIn) {
  const Loss& loss = GetParam();
  RunningCommand job(command_of(loss.job), with(loss.backend));
  EXPECT_EQ(job.wait(longest_training), 0) << job.out() << job.err();
  expect_done(job, loss.job.size);
  if (!loss.places.empty()) {
    EXPECT_EQ(count(job.out(), fmt::format("places {}, ", loss.places)), loss.job.size) << job.out();
  }
  if (!loss.sizes.empty()) {
    // On a busy machine the newcomer may be there before a step is done without it.
    EXPECT_EQ(count(job.out(), fmt::format("sizes {}\n", loss.sizes)) + count(job.out(), "sizes 4\n"), loss.job.size) << job.out();
  }
  EXPECT_EQ(count(job.err(), "first cause"), 0) << job.err();
}

std::vector<Loss> losses() {
  std::vector<Loss> all;
  for (const char* moment : {"idle", "small", "large"}) {
    all.push_back({std::string("RankOne_") + moment, {.moment = moment, .victims = "1"}, "0,2,3,1", "4,3,4"});
    all.push_back({std::string("RankZero_") + moment, {.moment = moment, .victims = "0"}, "1,2,3,0", "4,3,4"});
  }
  all.push_back({"RankOne_tcp", {.moment = "small", .victims = "1"}, "0,2,3,1", "4,3,4", "tcp"});
  // The loss is met in a group of the step's alone.
  all.push_back({"InAPart", {.moment = "part", .victims = "1"}, "0,2,3,1", "4,3,4"});
  all.push_back({"InAPart_tcp", {.moment = "part", .victims = "0"}, "1,2,3,0", "4,3,4", "tcp"});
  all.push_back({"ByExit", {.moment = "exit", .victims = "2"}, "0,1,3,2", "4,3,4"});
  all.push_back({"WithoutFinalize", {.moment = "leave", .victims = "2"}, "0,1,3,2", "4,3,4"});
  // Two are lost at once, and two come at once.
  all.push_back({"Two_together", {.moment = "together", .victims = "1,3"}, "", "4,2,4"});
  // Another rank is lost while the survivors shrink, and while they grow.
  all.push_back({"InShrink_one", {.moment = "shrink", .victims = "1"}, "", ""});
  all.push_back({"InShrink_zero", {.moment = "shrink", .victims = "0"}, "", ""});
  all.push_back({"InGrow_one", {.moment = "member", .victims = "1"}, "", ""});
  all.push_back({"InGrow_zero", {.moment = "member", .victims = "0"}, "", ""});
  all.push_back({"Newcomer", {.moment = "newcomer", .victims = "1"}, "0,2,3,1", "4,3,4"});
  // It leaves without finalize where another has been lost before.
  all.push_back({"OutOfAShrunkGroup", {.moment = "shrunk", .victims = "1"}, "", ""});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Faults, Lost, ::testing::ValuesIn(losses()), [](const auto& one) { return one.param.name; });

// A rank that did not answer is left out, and ended by the launcher. While it lives nothing of the job lets it in: neither the group that the others
// have left, nor a seat in the generation that they have formed meanwhile.
TEST(Elastic, AProcessThatWasLeftOutIsRefused) {
  auto options = with("native");
  options.environment.insert({{"TEST_SILENCE_MS", "1000"}, {"TEST_INIT_TIMEOUT_MS", "6000"}});
  RunningCommand job(command_of({.steps = 80, .moment = "stop", .victims = "1"}), options);
  EXPECT_EQ(job.wait(longest_training), 0) << job.out() << job.err();
  expect_done(job, 4);
  const auto stopped = lines_of_rank(job, 1);
  EXPECT_NE(line_of(stopped, "left out: Timeout ").find("gone on without this rank"), std::string::npos);
  EXPECT_EQ(line_of(stopped, "generation 2: "), "0 2 3.1");
  EXPECT_TRUE(line_of(stopped, "grow: PeerFailed ").starts_with("cause=")) << job.out();
  EXPECT_NE(line_of(stopped, "seat: InvalidArgument ").find("rank 1 is taken by"), std::string::npos) << job.out();
  EXPECT_EQ(count(job.err(), "the others go on without rank 1"), 1) << job.err();
}

// The deadline of the calls is far below the patience with silent ranks: the job goes on without a stopped rank all the same.
TEST(Elastic, AStoppedRankIsLeftOutBeforeAShortDeadline) {
  auto options = with("native");
  options.environment.insert({"TEST_INIT_TIMEOUT_MS", "8000"});
  RunningCommand job(command_of({.moment = "stall", .victims = "1"}), options);
  EXPECT_EQ(job.wait(longest_training), 0) << job.out() << job.err();
  expect_done(job, 4);
  EXPECT_EQ(count(job.err(), "the others go on without rank 1"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "rank 1 ended by SIGTERM; another process takes its place"), 1) << job.err();
}

// A newcomer that asks to be taken in, and then does not answer, makes room for another one.
TEST(Elastic, ANewcomerThatHangsIsReplaced) {
  auto options = with("native");
  options.environment.insert({{"TEST_SILENCE_MS", "1000"}, {"TEST_INIT_TIMEOUT_MS", "6000"}});
  RunningCommand job(command_of({.moment = "hang", .victims = "1"}), options);
  EXPECT_EQ(job.wait(longest_training), 0) << job.out() << job.err();
  expect_done(job, 4);
  EXPECT_EQ(count(job.err(), "the others go on without rank 1"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "rank 1 ended by SIGTERM; another process takes its place in 2 s (restart 2 of 6)"), 1) << job.err();
}

// The launcher cannot start the process that replaces a lost one. The others go on, and it tries again later.
TEST(Elastic, AStartThatFailsIsTriedAgain) {
  const TemporaryFolder folder;
  const std::string program = folder.path() + "/rank";
  std::filesystem::create_symlink(FAULT_RANK, program);
  auto command = command_of({.moment = "unstarted", .victims = "1"});
  std::ranges::replace(command, std::string(FAULT_RANK), program);
  auto options = with("native");
  options.environment.insert({"TEST_PROGRAM", program});
  RunningCommand job(command, options);
  ASSERT_TRUE(job.until_err_has("rank 1 was not started again (cannot run \"" + program + "\": ")) << job.err();
  EXPECT_TRUE(job.until_err_has("); another process takes its place in 2 s (restart 2 of 6)\n")) << job.err();
  std::filesystem::create_symlink(FAULT_RANK, program);
  EXPECT_EQ(job.wait(longest_training), 0) << job.out() << job.err();
  expect_done(job, 4);
  EXPECT_EQ(count(job.out(), "places 0,2,3,1, sizes 4,3,4\n"), 4) << job.out();
  EXPECT_EQ(count(job.err(), "first cause"), 0) << job.err();
}

// The loss before it is not the first cause, since the others have survived that.
TEST(Elastic, ARankThatLeavesAShrunkGroupWithoutFinalizeIsTheFirstCause) {
  RunningCommand job(command_of({.ranks = "3:4", .restarts = 0, .moment = "shrunk", .victims = "1", .grace = "2"}), with("native"));
  EXPECT_EQ(job.wait(std::chrono::seconds(50)), 1) << job.out() << job.err();
  EXPECT_EQ(count(job.err(), "[unisono] rank 3 ended by SIGKILL\n"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "[unisono] rank 1 left without finalize\n"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "first cause: rank 1 "), 1) << job.err();
  expect_nothing_left(job_of(job));
}

TEST(Elastic, TooFewRanksEndTheJobWithTheFirstCause) {
  RunningCommand job(command_of({.ranks = "3:4", .restarts = 0, .steps = 1000000000, .moment = "test", .grace = "2"}), with("native"));
  ASSERT_TRUE(job.until_out_has("ready", 4)) << job.err();
  ASSERT_TRUE(job.until_out_has("under way", 4)) << job.err();
  ::kill(pid_of(job, 3), SIGKILL);
  ASSERT_TRUE(job.until([&] { return count(job.out(), "a group of 3") == 3; })) << job.out() << job.err();
  ::kill(pid_of(job, 1), SIGTERM);
  EXPECT_EQ(job.wait(std::chrono::seconds(50)), 143) << job.out() << job.err();
  EXPECT_EQ(count(job.err(), "[unisono] rank 3 ended by SIGKILL\n"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "fewer than 3 ranks are left"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "first cause: rank 1 "), 1) << job.err();
  EXPECT_EQ(count(job.err(), "takes its place"), 0) << job.err();
  expect_nothing_left(job_of(job));
}

// With restarts left, all ranks start again where too few are left.
TEST(Elastic, TooFewRanksStartAgain) {
  RunningCommand job(command_of({.ranks = "4:4", .restarts = 1, .moment = "once", .victims = "1", .grace = "2"}), with("native"));
  EXPECT_EQ(job.wait(longest_training), 0) << job.out() << job.err();
  expect_done(job, 4);
  EXPECT_EQ(count(job.out(), "places 0,1,2,3, sizes 4\n"), 4) << job.out();
  EXPECT_EQ(count(job.err(), "fewer than 4 ranks are left; all are ended"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "restart 1 of 1 in 1 s"), 1) << job.err();
}

// Nobody can go on without a rank that dies before all have met.
TEST(Elastic, ADeathBeforeTheMeetingStartsAllAgain) {
  RunningCommand job(command_of({.restarts = 1, .moment = "meeting", .victims = "1", .grace = "2"}), with("native"));
  EXPECT_EQ(job.wait(longest_training), 0) << job.out() << job.err();
  EXPECT_EQ(count(job.out(), "places 0,1,2,3, sizes 4\n"), 4) << job.out();
  EXPECT_EQ(count(job.err(), "first cause: rank 1 "), 1) << job.err();
  EXPECT_EQ(count(job.err(), "restart 1 of 1 in 1 s"), 1) << job.err();
}

// A job that comes to its end dismisses a process that waits to be taken in.
TEST(Elastic, ANewcomerThatWaitsAtTheEndIsDismissed) {
  RunningCommand job(command_of({.size = 1, .moment = "refuse", .victims = "2"}), with("native"));
  EXPECT_EQ(job.wait(longest_training), 0) << job.out() << job.err();
  EXPECT_EQ(count(job.out(), "done as rank"), 3) << job.out();
  EXPECT_EQ(count(job.out(), "sizes 4,3\n"), 3) << job.out();
  EXPECT_EQ(count(job.err(), "first cause"), 0) << job.err();
  expect_nothing_left(job_of(job));
}

// Ranks that neither shrink nor grow fail with the lost one, as in any job.
TEST(Elastic, OtherProgramsFailWithTheLostRank) {
  std::vector<std::string> command{UNISONO_COMMAND, "run", "-n", "2:4", "--grace", "30", "--", FAULT_RANK, "work", "small", "1"};
  RunningCommand job(command, with("native"));
  ASSERT_TRUE(job.until_out_has("under way", 4)) << job.err();
  ::kill(pid_of(job, 1), SIGKILL);
  EXPECT_EQ(job.wait(std::chrono::seconds(50)), 137) << job.out() << job.err();
  EXPECT_EQ(count(job.err(), "first cause: rank 1 "), 1) << job.err();
  expect_nothing_left(job_of(job));
}

TEST(Elastic, WrongRangesAreRefused) {
  const auto refused = [](std::vector<std::string> words, const std::string& text) {
    words.insert(words.begin(), "run");
    words.insert(words.end(), {"--", "true"});
    RunningCommand job(unisono_command(words));
    EXPECT_EQ(job.wait(), 2) << job.err();
    EXPECT_NE(job.err().find(text), std::string::npos) << job.err();
  };
  refused({"-n", "4:2"}, "smaller one first");
  refused({"-n", "0:2"}, "not '0:2'");
  refused({"-n", "2:"}, "not '2:'");
  refused({"-n", "2:4", "--backend", "mpi"}, "not possible with");
  refused({"-n", "2:4", "--hosts", "a,b"}, "not possible with --hosts");
  refused({"--nnodes", "3:2"}, "smaller one first");
  refused({"--nnodes", "1:2", "--master-addr", "127.0.0.1", "--backend", "mpi"}, "not possible with backend mpi");
  refused({"--nnodes", "1:2", "--hosts", "a,b"}, "--nnodes");
}

}  // namespace
}  // namespace unisono::testing
