// Events that are no failure, or one that time alone shows: all ranks stopped, a rank in its own code, groups in crossed order, calls of the system
// that are interrupted all the time, a clock that jumps, memory files that are full. S3, S5, S7, C7, H1, H4, H8, N1.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <ostream>

#include "covers.h"
#include "invariants.h"

namespace unisono::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct World {
  std::string backend, elements;
  int ranks = 4;
};

std::ostream& operator<<(std::ostream& out, const World& world) { return out << world.backend; }

std::string name_of(const ::testing::TestParamInfo<World>& one) {
  return fmt::format("{}_{}_of{}", one.param.backend, one.param.elements, one.param.ranks);
}

const std::string small = "1", large = "4000000";

RunningCommand::Options on(const World& world, const Variables& more = {}) {
  RunningCommand::Options options{.environment = {{"TEST_INIT_BACKEND", world.backend}}};
  if (world.backend == "tcp") options.environment.insert({"TEST_HOSTS", one_host_each(world.ranks)});
  options.environment.insert(more.begin(), more.end());
  return options;
}

void expect_all_right(RunningCommand& job, int ranks) {
  EXPECT_EQ(job.wait(seconds(120)), 0) << job.out() << job.err();
  EXPECT_EQ(count(job.out(), "all right"), ranks) << job.out();
}

class AllStopped : public ::testing::TestWithParam<World> {};

// S3: for longer than the patience with a rank that is stopped. They may go on or fail cleanly; here they go on, since nobody has watched meanwhile.
TEST_P(AllStopped, S3RanksThatAllStopForAWhileGoOn) {
  const World& world = GetParam();
  RunningCommand job(faulty_job(world.ranks, {"work", world.elements == small ? "small" : "large", "1"}), on(world, {{"TEST_SILENCE_MS", "1000"}}));
  ASSERT_TRUE(job.until_out_has("under way", world.ranks)) << job.out() << job.err();
  std::vector<pid_t> ranks;
  for (int r = 0; r < world.ranks; ++r) ranks.push_back(pid_of(job, r));
  for (const pid_t rank : ranks) ::kill(rank, SIGSTOP);
  EXPECT_FALSE(job.until([&] { return count(job.out(), "error") > 0; }, milliseconds(2500))) << job.out();
  for (const pid_t rank : ranks) ::kill(rank, SIGCONT);
  EXPECT_FALSE(job.until([&] { return count(job.out(), "error") > 0; }, milliseconds(1500))) << job.out() << job.err();
  // Every result is checked. The rank that is killed now is the only one that anybody blames.
  ::kill(ranks[1], SIGKILL);
  expect_ending(job, {.ranks = world.ranks, .culprits = {1}, .causes = {"killed", "disconnected"}});
}
INSTANTIATE_TEST_SUITE_P(Faults, AllStopped, ::testing::Values(World{"native", small}, World{"tcp", small}, World{"native", large, 2}), name_of);

class InItsOwnCode : public ::testing::TestWithParam<World> {};

// S5: for much longer than a stopped rank may be stopped.
TEST_P(InItsOwnCode, S5ARankInItsOwnCodeIsNoFailureAndShown) {
  const World& world = GetParam();
  RunningCommand job(faulty_job(world.ranks, {"late", world.elements}), on(world, {{"TEST_SILENCE_MS", "1000"}}));
  ASSERT_TRUE(job.until_out_has("under way", world.ranks)) << job.out() << job.err();
  std::string shown;
  const auto names_it = [&] {
    RunningCommand status(unisono_command({"status", job_id(job)}));
    static_cast<void>(status.wait());
    shown = status.out() + status.err();
    return shown.find("rank 1 has not come to all_reduce #2") != std::string::npos;
  };
  EXPECT_TRUE(eventually(names_it)) << shown;
  EXPECT_FALSE(job.until([&] { return count(job.out(), "error") + count(job.out(), "all right") > 0; }, milliseconds(3000))) << job.out();
  ::kill(pid_of(job, 1), SIGUSR1);
  expect_all_right(job, world.ranks);
}
INSTANTIATE_TEST_SUITE_P(Faults, InItsOwnCode,
                         ::testing::Values(World{"native", small}, World{"tcp", small}, World{"native", large, 2}, World{"tcp", small, 7}), name_of);

class CrossedGroups : public ::testing::TestWithParam<World> {};

// S7, C7: each rank waits in one group for ranks that wait in the other. The error names them and, on this host, the call in which they are.
TEST_P(CrossedGroups, S7C7CrossedGroupsAreATimeoutThatNamesBoth) {
  const World& world = GetParam();
  RunningCommand job(faulty_job(world.ranks, {"crossed", world.elements}), on(world));
  EXPECT_EQ(job.wait(seconds(50)), 3) << job.out() << job.err();
  const std::string group = world.ranks == 2 ? "{0, 1}" : "{0, 1, 2, 3}";
  for (int r = 0; r < world.ranks; ++r) {
    const std::string error = line_of(lines_of_rank(job, r), "error ");
    EXPECT_TRUE(error.starts_with("Timeout missing=")) << error;
    const std::string missing = "," + word_after(error, "missing=") + ",";
    for (int other = 0; other < world.ranks; ++other) {
      EXPECT_EQ(missing.find(fmt::format(",{},", other)) != std::string::npos, other % 2 != r % 2) << "rank " << r << ": " << error;
    }
    EXPECT_NE(word_after(error, "group="), "") << error;
    EXPECT_EQ(word_after(error, "seq="), "1") << error;
    const std::string theirs = fmt::format(" all_reduce #1 of {}{} (matrix_modes.cpp:", group, r % 2 == 0 ? " (2)" : "");
    EXPECT_NE(error.find(fmt::format("; rank {} ", 1 - r % 2)), std::string::npos) << error;
    EXPECT_NE(error.find(theirs), std::string::npos) << error << "\ndoes not have" << theirs;
  }
  EXPECT_EQ(count(job.out(), "SUCCEEDED"), 0) << job.out();
  expect_no_crash(job);
  expect_clean_host(job_id(job));
}
INSTANTIATE_TEST_SUITE_P(Faults, CrossedGroups,
                         ::testing::Values(World{"native", small}, World{"tcp", small}, World{"native", large, 2}, World{"tcp", large, 2}), name_of);

// C7: one rank waits for a message while the others are in a collective. The text of the timeout has both calls.
TEST(DifferentCalls, C7DifferentCallsAreATimeoutThatNamesBoth) {
  for (const World& world : {World{"native", "", 2}, World{"native", "", 4}, World{"tcp", "", 2}}) {
    const int ranks = world.ranks;
    RunningCommand job(faulty_job(ranks, {"differ"}), on(world));
    EXPECT_EQ(job.wait(seconds(50)), 3) << job.out() << job.err();
    for (int r = 0; r < ranks; ++r) {  // the first timeout is the failure of all
      const std::string error = line_of(lines_of_rank(job, r), "error ");
      EXPECT_TRUE(error.starts_with("Timeout missing=")) << error;
      const bool of_collective = error.find("recv #1 was not done") != std::string::npos &&
                                 error.find("; rank 0 is in all_reduce #1 of world (matrix_modes.cpp:") != std::string::npos;
      const bool of_message = error.find("all_reduce #1 was not done") != std::string::npos &&
                              error.find("; rank 1 is in recv #1 of world (matrix_modes.cpp:") != std::string::npos;
      EXPECT_TRUE(of_collective || of_message) << error;
    }
    expect_no_crash(job);
  }
}

class Interrupted : public ::testing::TestWithParam<World> {};

TEST_P(Interrupted, H4InterruptionsAllTheTimeAreNoFailure) {
  const World& world = GetParam();
  RunningCommand job(faulty_job(world.ranks, {"storm", world.elements == small ? "200" : "5", world.elements}), on(world));
  expect_all_right(job, world.ranks);
}
INSTANTIATE_TEST_SUITE_P(Faults, Interrupted,
                         ::testing::Values(World{"native", small}, World{"tcp", small}, World{"native", "400000", 2}, World{"tcp", "400000"}),
                         name_of);

class CutShort : public ::testing::TestWithParam<std::string> {};

// Every call of that name moves one byte alone.
TEST_P(CutShort, H4CallsThatAreCutShortEveryTimeAreNoFailure) {
  RunningCommand job(faulty_job(2, {"rounds", "3", "40"}),
                     on({"tcp", "", 2}, {{"LD_PRELOAD", FAILING_CALLS}, {"FAILING_CALL", GetParam() + ":1:-1:100000"}, {"FAILING_CALL_RANK", "1"}}));
  expect_all_right(job, 2);
}
INSTANTIATE_TEST_SUITE_P(Faults, CutShort, ::testing::Values("sendmsg", "recvmsg", "send", "recv"), [](const auto& one) { return one.param; });

class NoMemory : public ::testing::TestWithParam<int> {};

// H4: the n-th mmap of a rank is refused while it joins. It works all the same, or every rank says why not.
TEST_P(NoMemory, H4LackOfMemoryIsAnErrorOnAllRanksOrNoMatter) {
  RunningCommand job(
      faulty_job(4, {"join-only"}),
      on({"native", ""}, {{"LD_PRELOAD", FAILING_CALLS}, {"FAILING_CALL", fmt::format("mmap:{}:12", GetParam())}, {"FAILING_CALL_RANK", "1"}}));
  const int code = job.wait(seconds(50));
  EXPECT_TRUE(code == 0 || code == 3) << code << job.out() << job.err();
  for (int r = 0; r < 4 && code != 0; ++r) {
    const std::string error = line_of(lines_of_rank(job, r), "error ");
    EXPECT_TRUE(error.starts_with(r == 1 ? "BackendUnavailable " : "PeerFailed ")) << error;
    if (r != 1) {
      EXPECT_EQ(word_after(error, "culprit="), "1") << error;
    }
  }
  expect_no_crash(job);
}
INSTANTIATE_TEST_SUITE_P(Faults, NoMemory, ::testing::Values(1, 2, 3, 4, 5));

// H8: timers and deadlines go by the clock that only goes forward.
TEST(JumpingClock, H8AJumpingClockChangesNothing) {
  for (const World& world : {World{"native", "400000"}, World{"tcp", "400000"}}) {
    RunningCommand job(faulty_job(world.ranks, {"rounds", "10", world.elements}),
                       on(world, {{"LD_PRELOAD", JUMPING_CLOCK}, {"TEST_SILENCE_MS", "3000"}}));
    expect_all_right(job, world.ranks);
    RunningCommand late(faulty_job(world.ranks, {"missing", "1", "all_reduce"}), on(world, {{"LD_PRELOAD", JUMPING_CLOCK}}));
    ASSERT_TRUE(late.until_out_has("took", world.ranks - 1)) << late.out() << late.err();
    ::kill(pid_of(late, 1), SIGUSR1);
    EXPECT_EQ(late.wait(seconds(50)), 3) << late.out() << late.err();
    for (int r = 0; r < world.ranks; ++r) EXPECT_TRUE(line_of(lines_of_rank(late, r), "error ").starts_with("Timeout missing=1 ")) << late.out();
  }
}

// H1: the memory of a job is no file, so /dev/shm may be as small or as full as it likes, also when the job runs already.
TEST(FullSharedMemory, H1FullSharedMemoryIsNoMatter) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can mount a small /dev/shm";
  for (const std::string size : {"4k", "1m", "4m", "64m"}) {
    const std::string script = fmt::format(
        "mount -t tmpfs -o size={} tmpfs /dev/shm && head -c 100m /dev/zero > /dev/shm/full 2>/dev/null; "
        "exec {} run -n 4 -- {} rounds 3 400000",
        size, UNISONO_COMMAND, FAULT_RANK);
    RunningCommand job({"/usr/bin/unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script});
    expect_all_right(job, 4);
    EXPECT_EQ(count(job.err(), "SIGBUS"), 0) << job.err();
  }
}

}  // namespace
}  // namespace unisono::testing
