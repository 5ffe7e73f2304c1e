// spawn, when something goes wrong: who is named, what travels back, and that nothing stays.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "context/state.h"
#include "covers.h"
#include "running_command.h"
#include "spawn_ranks.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

using namespace std::chrono_literals;

template <class F>
LaunchFailed failure_of(int ranks, F&& f, SpawnOptions options = {}) {
  options.nproc_per_node = ranks;
  try {
    spawn(options, f);
  } catch (const LaunchFailed& error) {
    return error;
  }
  ADD_FAILURE() << "spawn threw nothing";
  return LaunchFailed("");
}

const ProcessEnd& end_of(const LaunchFailed& error, int rank) { return error.ends().at(static_cast<std::size_t>(rank)); }

/// That rank is the one, and all others failed for its sake.
void expect_cause(const LaunchFailed& error, int ranks, int cause) {
  EXPECT_EQ(error.operation(), "spawn");
  EXPECT_EQ(error.culprit(), cause) << error.what();
  EXPECT_EQ(error.host(), hostname());
  ASSERT_EQ(error.ends().size(), static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    const ProcessEnd& end = end_of(error, r);
    EXPECT_EQ(end.rank, r);
    EXPECT_TRUE(end.failed) << r;
    EXPECT_EQ(end.is_consequence, r != cause) << r << ": " << error.what();
  }
}

class SpawnFailureOf : public ::testing::TestWithParam<int> {};

TEST_P(SpawnFailureOf, AnExceptionNamesItsRankAndReachesThePeers) {
  COVERS("I-20", "Q-25", "K-46");
  const int culprit = GetParam();
  const auto error = failure_of(4, [culprit](int local_rank) {
    if (local_rank == culprit) throw InvalidArgument("five is no prime of ours", {.operation = "sieve"});
    barrier();
  });
  expect_cause(error, 4, culprit);
  EXPECT_EQ(end_of(error, culprit).error_type, "InvalidArgument");
  EXPECT_EQ(end_of(error, culprit).message, "sieve: five is no prime of ours");
  EXPECT_EQ(end_of(error, culprit).exit_code, 1);
  std::string others;
  for (int r = 0; r < 4; ++r) {
    if (r == culprit) continue;
    others += (others.empty() ? "" : ",") + std::to_string(r);
    EXPECT_EQ(end_of(error, r).error_type, "PeerFailed");
    EXPECT_NE(end_of(error, r).message.find("InvalidArgument: sieve: five is no prime of ours"), std::string::npos) << end_of(error, r).message;
  }
  EXPECT_NE(error.message().find(fmt::format("rank {} threw InvalidArgument: sieve: five is no prime of ours; ranks ", culprit)), std::string::npos)
      << error.what();
  EXPECT_NE(error.message().find("were ended as a consequence"), std::string::npos) << error.what();
}

INSTANTIATE_TEST_SUITE_P(Spawn, SpawnFailureOf, ::testing::Values(0, 1, 3));

struct NoException {
  int code;
};

TEST(SpawnFailure, AnythingThatIsThrownIsNamed) {
  const auto range = failure_of(1, [] { throw std::out_of_range("no such row"); });
  EXPECT_EQ(range.message(), "rank 0 threw std::out_of_range: no such row");
  const auto nothing = failure_of(1, [] { throw NoException{3}; });
  EXPECT_NE(nothing.message().find("NoException"), std::string::npos) << nothing.what();
  const auto long_text = failure_of(2, [](int) { throw std::runtime_error(std::string(300'000, 'x')); });
  EXPECT_GT(std::string(long_text.what()).size(), 300'000u);
}

// All of them fail by themselves: none is a consequence, whoever was first is named first.
TEST(SpawnFailure, RanksThatFailByThemselvesAreAllNamed) {
  const auto error = failure_of(3, [](int local_rank) {
    if (local_rank > 0) throw std::runtime_error(fmt::format("reason {}", local_rank));
  });
  EXPECT_FALSE(end_of(error, 0).failed);
  EXPECT_EQ(end_of(error, 0).exit_code, 0);
  for (int r = 1; r < 3; ++r) {
    EXPECT_TRUE(end_of(error, r).failed);
    EXPECT_FALSE(end_of(error, r).is_consequence);
    EXPECT_NE(error.message().find(fmt::format("rank {} threw std::runtime_error: reason {}", r, r)), std::string::npos) << error.what();
  }
}

// A program may put its own words around what the library throws.
TEST(SpawnFailure, AnErrorAroundThatOfAPeerIsAConsequence) {
  const auto error = failure_of(3, [] {
    if (rank() == 2) throw std::logic_error("the reason");
    try {
      barrier();
    } catch (const Error&) {
      std::throw_with_nested(std::runtime_error("cannot go on"));
    }
  });
  expect_cause(error, 3, 2);
  for (const int r : {0, 1}) EXPECT_EQ(end_of(error, r).message, "cannot go on");
  EXPECT_EQ(error.message(), "rank 2 threw std::logic_error: the reason; ranks 0, 1 were ended as a consequence");
}

// An exception that says nothing is named without an end left open.
TEST(SpawnFailure, APeerIsToldTheTypeOfWhatHasNoText) {
  const auto error = failure_of(2, [](int local_rank) {
    if (local_rank == 1) throw 42;
    barrier();
  });
  EXPECT_NE(end_of(error, 0).message.find("rank 1 gave up: int ["), std::string::npos) << end_of(error, 0).message;
}

// "child died: exit code or signal name"
TEST(SpawnFailure, ASignalIsNamed) {
  COVERS("I-20");
  for (const auto& [signal, name] : {std::pair(SIGKILL, "SIGKILL"), std::pair(SIGSEGV, "SIGSEGV"), std::pair(SIGABRT, "SIGABRT")}) {
    const auto error = failure_of(3, [signal = signal] {
      const rlimit none{0, 0};
      ::setrlimit(RLIMIT_CORE, &none);
      barrier();
      if (rank() == 1) {
        ::signal(signal, SIG_DFL);
        ::raise(signal);
      }
      barrier();
    });
    expect_cause(error, 3, 1);
    EXPECT_EQ(end_of(error, 1).signal, name);
    EXPECT_FALSE(end_of(error, 1).exit_code.has_value());
    EXPECT_EQ(error.message(), fmt::format("rank 1 was ended by {}; ranks 0, 2 were ended as a consequence", name));
    for (const int r : {0, 2}) EXPECT_EQ(end_of(error, r).error_type, "PeerFailed");
  }
}

// A result does not make up for a rank that has none.
TEST(SpawnFailure, ARankThatEndsItsProcessIsReportedWhateverTheCode) {
  for (const int code : {0, 3}) {
    const auto error = failure_of(2, [code] {
      if (rank() == 1) ::_exit(code);
      barrier();
    });
    expect_cause(error, 2, 1);
    EXPECT_EQ(end_of(error, 1).exit_code, code);
    EXPECT_NE(error.message().find(fmt::format("rank 1 exited with code {} before its function returned", code)), std::string::npos) << error.what();
  }
}

TEST(SpawnFailure, ExitInARankDoesNotDoWhatItsParentDoesAtExit) {
  for (const char* code : {"0", "3"}) {
    RunningCommand program({SPAWN_HELPER, "exit", code});
    EXPECT_EQ(program.wait(), 0) << program.out() << program.err();
    EXPECT_EQ(count(program.out(), "LaunchFailed spawn: rank 1 exited with code " + std::string(code)), 1) << program.out();
    EXPECT_EQ(count(program.out(), "at exit\n"), 1) << program.out();
  }
}

// The timeout is that of every call.
TEST(SpawnFailure, ATimeoutIsNamed) {
  COVERS("I-19");
  const auto error = failure_of(2,
                                [] {
                                  if (rank() == 0) barrier();
                                  else {
                                    try {  // waits for a message that nobody sends, until rank 0 has given up
                                      std::vector<int> x(1);
                                      recv(x, 0, world(), {.timeout = 60s});
                                    } catch (const Error&) {
                                    }
                                  }
                                },
                                {.timeout = 3s});
  EXPECT_EQ(error.culprit(), 1) << "whom the timeout of rank 0 names: " << error.what();
  EXPECT_EQ(end_of(error, 0).error_type, "Timeout");
}

// A rank that cannot even join: the others do not wait for it.
TEST(SpawnFailure, ARankThatDiesBeforeItJoinsIsTheCause) {
  SpawnOptions options;
  options.init_method = "file:///no/such/folder/meeting";
  const auto error = failure_of(
      2, [] {}, options);
  EXPECT_NE(error.message().find("/no/such/folder"), std::string::npos) << error.what();
  for (int r = 0; r < 2; ++r) EXPECT_TRUE(end_of(error, r).failed);
}

// Somebody kills the small process that guards the ranks: the next thing that it is told must not end the program by SIGPIPE.
TEST(SpawnFailure, AWatchdogThatIsKilledEndsNobody) {
  RunningCommand program({SPAWN_HELPER, "watchdog-killed"});
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_EQ(count(program.out(), "killed "), 1) << program.out();
  EXPECT_EQ(count(program.out(), "went on\n"), 1) << program.out();
}

// Survivors of a failure may go on together; the job has failed all the same.
TEST(SpawnFailure, SurvivorsMayShrinkAndReturn) {
  const auto error = failure_of(3, [] {
    if (rank() == 1) ::raise(SIGKILL);
    try {
      barrier();
    } catch (const PeerFailed&) {
      const auto group = shrink_group(world());
      // So the launcher learns that it need not end them.
      const context::State& state = context::current();
      if (state.launcher.store()->get(fmt::format("unisono/status/{}", state.rank)) != "shrunk") throw std::logic_error("nobody was told");
      return all_reduce(rank(), ReduceOp::sum, *group);
    }
    return -1;
  });
  EXPECT_EQ(error.culprit(), 1);
  for (const int r : {0, 2}) EXPECT_FALSE(end_of(error, r).failed) << error.what();
}

// Each of the smaller groups is one of its own, and is kept apart from the one before in the job's store.
TEST(SpawnFailure, SurvivorsMayShrinkAgain) {
  static std::set<std::string> keys;
  register_engine("counted", [](const EngineOptions& options) {
    if (!keys.insert(options.key).second) throw std::logic_error("the key of another group: " + options.key);
    return std::make_unique<Borrowed>(options);
  });
  SpawnOptions options;
  options.backend = "counted";
  const auto survive = [] {
    ProcessGroup group = world();
    for (const int victim : {1, 3}) {
      if (rank() == victim) {
        barrier(group);
        ::raise(SIGKILL);
      }
      try {
        for (;;) barrier(group);
      } catch (const PeerFailed&) {
        group = *shrink_group(group);
      }
    }
    const std::vector<int> left = all_gather(rank(), group);
    if (left != std::vector<int>{0, 2, 4}) throw std::logic_error("others are left");
  };
  const auto error = failure_of(5, survive, options);
  EXPECT_EQ(error.culprit(), 1);
  for (const int r : {0, 2, 4}) EXPECT_FALSE(end_of(error, r).failed) << error.what();
}

// ---- the parent's end ------------------------------------------------------------------------------------------

class ParentEndedBy : public ::testing::TestWithParam<int> {};

// Nothing of a job stays, however its parent goes.
TEST_P(ParentEndedBy, AParentThatEndsTakesItsRanksWithIt) {
  COVERS("I-20");
  RunningCommand program({SPAWN_HELPER, "rest"});
  ASSERT_TRUE(program.until_out_has("resting ", 3)) << program.err();
  std::vector<pid_t> pids;
  for (const auto& line : lines_of(program.out())) pids.push_back(std::stoi(line.substr(line.find(' ') + 1)));
  ASSERT_EQ(pids.size(), 3u);
  program.send(GetParam());
  EXPECT_EQ(program.wait(), 128 + GetParam());
  for (const pid_t pid : pids) EXPECT_TRUE(eventually([pid] { return !is_alive(pid); })) << pid;
}

INSTANTIATE_TEST_SUITE_P(Spawn, ParentEndedBy, ::testing::Values(SIGINT, SIGTERM, SIGKILL));

}  // namespace
}  // namespace unisono::testing
