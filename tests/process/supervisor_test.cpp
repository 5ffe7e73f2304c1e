// The supervisor as a library: what it runs, tells, refuses and leaves behind.

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <stdexcept>

#include "launch/job/supervisor.h"

namespace unisono::testing {
namespace {

using std::chrono::milliseconds;

TEST(Supervisor, TheSupervisorRunsAFunctionInEveryRank) {
  const auto result = launcher::run_job({.ranks = 3,
                                         .function = [](const base::Environment& environment) { return 10 + *environment.get_int("RANK"); },
                                         .grace = milliseconds(30'000)});
  ASSERT_EQ(result.ends.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(result.ends[static_cast<std::size_t>(rank)].code, 10 + rank);
  ASSERT_TRUE(result.first_cause.has_value());
  EXPECT_EQ(result.exit_code, result.ends[*result.first_cause].code);
}

TEST(Supervisor, TheSupervisorTellsHowEachRankEnded) {
  const auto result = launcher::run_job({.ranks = 3,
                                         .shown = {.output = launcher::OutputMode::inherited},
                                         .function =
                                             [](const base::Environment& environment) {
                                               const int rank = *environment.get_int("RANK");
                                               if (rank == 1) ::kill(::getpid(), SIGKILL);
                                               if (rank == 2) throw std::runtime_error("rank 2 does not like it");
                                               return 0;
                                             },
                                         .grace = milliseconds(30'000),
                                         .signals = launcher::SignalMode::left});
  EXPECT_EQ(result.exit_code, 137);
  ASSERT_TRUE(result.first_cause.has_value());
  EXPECT_EQ(*result.first_cause, 1u);
  EXPECT_EQ(result.ends[0].exit_code(), 0);
  EXPECT_EQ(result.ends[1].exit_code(), 137);
  EXPECT_EQ(result.ends[2].exit_code(), 1);
  EXPECT_EQ(result.attempts, 1);
}

TEST(Supervisor, TheSupervisorRefusesOptionsThatMakeNoSense) {
  const auto nothing = [](const base::Environment&) { return 0; };
  EXPECT_THROW(launcher::run_job({.ranks = 0, .function = nothing}), InvalidArgument);
  EXPECT_THROW(launcher::run_job({.ranks = 1}), InvalidArgument);
  EXPECT_THROW(launcher::run_job({.ranks = 1, .command = {"true"}, .function = nothing}), InvalidArgument);
  EXPECT_THROW(launcher::run_job({.ranks = 1, .function = nothing, .max_restarts = -1}), InvalidArgument);
  EXPECT_THROW(launcher::run_job({.ranks = 1, .function = nothing, .grace = milliseconds(-1)}), InvalidArgument);
  EXPECT_THROW(launcher::run_job({.ranks = 1, .command = {"/no/such/program"}}), launcher::StartFailed);
}

TEST(Supervisor, TheSupervisorLeavesNoDescriptorOpenAndNoSignalChanged) {
  sigset_t before, after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  const int first_free = ::dup(0);
  ::close(first_free);
  launcher::run_job({.ranks = 4, .command = {"true"}});
  const int free_now = ::dup(0);
  ::close(free_now);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(free_now, first_free);
  for (int signal = 1; signal < NSIG; ++signal) EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
  struct sigaction pipe {};
  ::sigaction(SIGPIPE, nullptr, &pipe);
  EXPECT_EQ(pipe.sa_handler, SIG_DFL);
}

}  // namespace
}  // namespace unisono::testing
