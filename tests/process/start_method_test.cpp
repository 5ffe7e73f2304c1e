// Processes of spawn, launch and Parallel that run the program again, and such that nobody waits for at once.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <stdexcept>

#include "covers.h"
#include "running_command.h"
#include "spawn_ranks.h"
#include "thrown_by.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

using namespace std::chrono_literals;

/// The lines that exec_helper has written; the test fails if it fails.
std::vector<std::string> lines_of_helper(std::vector<std::string> words) {
  words.insert(words.begin(), EXEC_HELPER);
  RunningCommand program(words);
  EXPECT_EQ(program.wait(), 0) << program.out() << program.err();
  return lines_of(program.out());
}

// A lock that this process holds is free in them, and what they return comes back.
TEST(StartMethod, ProcessesOfExecRunTheProgramFromItsBeginning) {
  COVERS("I-20", "B-12");
  const auto lines = lines_of_helper({"exec", "a word"});
  EXPECT_EQ(lines, (std::vector<std::string>{"begun a word", "begun a word", "begun a word", "begun a word", "a word: rank 0 of 3, local 0 0, sum 3",
                                             "a word: rank 1 of 3, local 1 1, sum 3", "a word: rank 2 of 3, local 2 2, sum 3"}));
}

TEST(StartMethod, LaunchAndParallelStartByExecToo) {
  COVERS("I-20", "V-01", "A-72");
  EXPECT_EQ(lines_of_helper({"launch"}),
            (std::vector<std::string>{"begun", "begun", "begun", "rank 0 of 2, local 10 0, sum 1", "rank 1 of 2, local 11 1, sum 1"}));
  RunningCommand parallel({EXEC_HELPER, "parallel"});
  EXPECT_EQ(parallel.wait(), 0) << parallel.err();
  EXPECT_EQ(lines_of(parallel.out()),
            (std::vector<std::string>{"begun", "begun", "begun", "rank 0 of 2, local 0 0, sum 1", "rank 1 of 2, local 1 1, sum 1"}));
  EXPECT_EQ(count(parallel.err(), "Prepared to start processes"), 1) << parallel.err();
  EXPECT_NE(parallel.err().find("start_method: exec"), std::string::npos) << parallel.err();
}

TEST(StartMethod, TheFirstCauseAmongProcessesOfExecIsThrown) {
  const auto lines = lines_of_helper({"fails", "1"});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("LaunchFailed spawn: rank 1 threw std::logic_error: I give up"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("rank 0 was ended as a consequence"), std::string::npos) << lines[0];
}

TEST(StartMethod, ALaterCallOfAProgramIsNotStartedByExec) {
  const auto lines = lines_of_helper({"late"});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[1].find("would come to an earlier call first"), std::string::npos) << lines[1];
}

TEST(StartMethod, AProcessOfExecThatComesToAnotherCallIsAnError) {
  const auto lines = lines_of_helper({"elsewhere"});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("comes to the same call in every process, and this one has come to another one first"), std::string::npos) << lines[0];
}

TEST(StartMethod, AProcessOfExecKnowsAFunctionFromAnotherOneOfTheSameType) {
  EXPECT_EQ(lines_of_helper({"same"}), (std::vector<std::string>{"3", "4"}));
  for (const char* how : {"another", "another-job"}) {
    const auto lines = lines_of_helper({how});
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_NE(lines[0].find("this one has come to another one first"), std::string::npos) << lines[0];
  }
}

TEST(StartMethod, AProcessOfExecThatComesToNoCallIsAnError) {
  const auto lines = lines_of_helper({"nowhere"});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("exited with code 0 before its function returned"), std::string::npos) << lines[0];
}

TEST(StartMethod, AProcessOfExecStartsNoJobWithinItsJob) {
  const auto lines = lines_of_helper({"nested"});
  ASSERT_EQ(lines.size(), 2u);
  for (const std::string& line : lines) EXPECT_NE(line.find("nested use"), std::string::npos) << line;
}

/// A pipe whose reading end the ranks wait at.
class Gate {
 public:
  Gate() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Gate() {
    for (const int end : ends_) ::close(end);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open(int ranks) const {
    EXPECT_EQ(::write(ends_[1], std::string(static_cast<std::size_t>(ranks), '.').data(), static_cast<std::size_t>(ranks)), ranks);
  }
  void pass() const {
    char byte = 0;
    if (::read(ends_[0], &byte, 1) != 1) throw std::runtime_error("the gate is gone");
  }

 private:
  std::array<int, 2> ends_{};
};

TEST(SpawnAsync, TheProgramGoesOnBesideItsProcesses) {
  COVERS("I-20");
  const Gate gate;
  auto ranks_beside = spawn_async(ranks(3), [&gate](int local_rank) {
    gate.pass();
    return std::pair(local_rank, all_reduce(rank() + 1));
  });
  EXPECT_FALSE(ranks_beside.wait_for(20ms));
  gate.open(3);
  EXPECT_EQ(ranks_beside.join(), (std::vector<std::pair<int, int>>{{0, 6}, {1, 6}, {2, 6}}));
  EXPECT_TRUE(ranks_beside.wait_for(0ms));
  EXPECT_THROW(ranks_beside.join(), InvalidArgument);
}

TEST(SpawnAsync, JobsThatOverlapLeaveTheProcessAsTheFirstFoundIt) {
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;  // the kernel forgets then how children end
  ASSERT_EQ(::sigaction(SIGCHLD, &ignore, &before), 0);
  rlimit whole{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &whole), 0);
  const rlimit few{.rlim_cur = 70, .rlim_max = whole.rlim_max};  // a job of two ranks needs more
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto ignores_children = [] {
    struct sigaction now {};
    return ::sigaction(SIGCHLD, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
  };
  const auto descriptors = [] {
    rlimit now{};
    return ::getrlimit(RLIMIT_NOFILE, &now) == 0 ? static_cast<int>(now.rlim_cur) : -1;
  };
  const Gate first_gate, second_gate;
  auto first = spawn_async(ranks(2), [&] { return first_gate.pass(), descriptors(); });
  auto second = spawn_async(ranks(2), [&] {
    second_gate.pass();
    if (local_rank() == 1) ::_exit(7);
    barrier();
  });
  first_gate.open(2);
  EXPECT_EQ(first.join(), (std::vector<int>{70, 70}));
  EXPECT_FALSE(ignores_children());
  EXPECT_GT(descriptors(), 70);
  second_gate.open(2);
  const auto error = thrown_by<LaunchFailed>([&] { second.join(); });
  EXPECT_EQ(error.ends()[1].exit_code, 7) << error.what();
  EXPECT_TRUE(ignores_children());
  EXPECT_EQ(descriptors(), 70);
  ::setrlimit(RLIMIT_NOFILE, &whole);
  ::sigaction(SIGCHLD, &before, nullptr);
}

TEST(SpawnAsync, JoinThrowsWhyTheProcessesHaveFailed) {
  auto processes = spawn_async(ranks(2), [] {
    if (rank() == 1) throw std::out_of_range("no");
    barrier();
  });
  try {
    processes.join();
    ADD_FAILURE() << "threw nothing";
  } catch (const LaunchFailed& error) {
    EXPECT_EQ(error.culprit(), 1);
    EXPECT_NE(error.message().find("std::out_of_range: no"), std::string::npos) << error.what();
  }
  EXPECT_THROW(spawn_async({.nproc_per_node = 0}, [] {}).join(), InvalidArgument);
}

TEST(SpawnAsync, TheEndOfTheHandleWaitsForTheProcesses) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  {
    const Gate gate;
    const auto processes = spawn_async(ranks(2), [&] {
      gate.pass();
      barrier();
      if (::write(ends[1], "x", 1) != 1) throw std::runtime_error("cannot write");
    });
    gate.open(2);
  }
  ::close(ends[1]);
  char text[3] = {};
  std::size_t got = 0;
  for (ssize_t n = 0; (n = ::read(ends[0], text + got, sizeof text - got)) > 0;) got += static_cast<std::size_t>(n);
  ::close(ends[0]);
  EXPECT_EQ(got, 2u);
}

TEST(ParallelWithoutJoin, RunReturnsWhileTheProcessesRun) {
  COVERS("I-20", "A-72");
  const Gate gate, back;
  Parallel parallel({.backend = "native", .nproc_per_node = 2, .join = false});
  const std::vector<int> none = parallel.run([&] {
    gate.pass();
    barrier();
    back.open(1);
    return 7;
  });
  EXPECT_TRUE(none.empty());
  gate.open(2);
  for (int i = 0; i < 2; ++i) back.pass();
  parallel.join();
  parallel.join();  // nothing is left
  parallel.run([] { throw std::logic_error("I give up"); });
  EXPECT_THROW(parallel.join(), LaunchFailed);
}

TEST(ParallelWithoutJoin, AFailureThatNobodyHasJoinedIsLogged) {
  ::testing::internal::CaptureStderr();
  {
    Parallel({.backend = "native", .nproc_per_node = 2, .join = false}).run([] { throw std::logic_error("I give up"); });
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("nobody has joined have failed"), std::string::npos) << said;
  EXPECT_NE(said.find("I give up"), std::string::npos) << said;
}

TEST(ParallelWithoutJoin, OptionsOfProcessesNeedProcesses) {
  EXPECT_THROW(Parallel({.start_method = StartMethod::exec}), InvalidArgument);
  EXPECT_THROW(Parallel({.join = false}), InvalidArgument);
}

TEST(Launch, OptionsStandBeforeTheArgumentsOfTheJob) {
  COVERS("V-01", "V-04", "K-51");
  const auto job = [](int epochs, int batch = 32) { return std::tuple(world_size(), backend().value_or("none"), 1000 * epochs + batch); };
  const std::tuple two(2, std::string("native"), 10032);
  EXPECT_EQ(launch(job, {.num_gpus_per_machine = 2, .backend = "native"}, 10), (std::vector{two, two}));
  EXPECT_EQ(launch(job, {}, 10, 8), (std::vector{std::tuple(1, backend().value_or("none"), 10008)}));
  EXPECT_EQ(launch([] { return ::getpid(); }, {}), std::vector<pid_t>{::getpid()});
  EXPECT_THROW(launch(job, {.num_gpus_per_machine = 0}, 10), InvalidArgument);
  EXPECT_THROW(launch(job, {.num_machines = 2}, 10), InvalidArgument);
}

}  // namespace
}  // namespace unisono::testing
