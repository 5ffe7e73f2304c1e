// spawn: the process that calls it keeps its environment, its descriptors and its children as they were.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "covers.h"
#include "spawn_ranks.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

std::vector<std::string> environment_now() {
  std::vector<std::string> lines;
  for (char** entry = environ; *entry != nullptr; ++entry) lines.emplace_back(*entry);
  return lines;
}

// The library tells a rank of itself through nobody's environment, and the program's own changes to its environment stay.
TEST(Environment, TheEnvironmentIsReadAndNeverWritten) {
  COVERS("C-28", "E-07", "K-49");
  const auto before = environment_now();
  const auto inside = spawn(ranks(2), [] {
    ::setenv("UNISONO_TEST_WORD", "set by a rank", 1);
    barrier();
    return environment_now();
  });
  EXPECT_EQ(environment_now(), before);
  auto expected = before;
  expected.emplace_back("UNISONO_TEST_WORD=set by a rank");
  for (const auto& seen : inside) EXPECT_EQ(seen, expected);
}

// An initialize that fails leaves nothing behind, in the environment or elsewhere.
TEST(Environment, TheEnvironmentIsTheSameAfterAFailure) {
  COVERS("K-34", "K-79", "I-39", "I-42");
  const auto before = environment_now();
  EXPECT_THROW(initialize("abc"), InvalidArgument);
  EXPECT_THROW(initialize({.backend = "native", .rank = 1, .world_size = 2}), InvalidArgument);
  EXPECT_THROW(initialize({.rank = 1}), InvalidArgument);
  if (!is_backend_available("nccl")) {
    EXPECT_THROW(initialize("nccl"), BackendUnavailable);
  }
  EXPECT_THROW(initialize({.backend = "serial", .init_method = "tcp://127.0.0.1:1", .rank = 2, .world_size = 2}), InvalidArgument);
  EXPECT_EQ(environment_now(), before);
  EXPECT_FALSE(is_initialized());
}

// Changes that the program has made meanwhile are not undone.
TEST(Environment, TheEnvironmentKeepsWhatTheProgramChangesInAContext) {
  COVERS("K-35", "I-39", "I-42");
  ::setenv("UNISONO_TEST_WORD", "before", 1);
  initialize();
  EXPECT_THROW(initialize(), AlreadyInitialized);
  ::setenv("UNISONO_TEST_WORD", "meanwhile", 1);
  finalize();
  EXPECT_STREQ(::getenv("UNISONO_TEST_WORD"), "meanwhile");
  ::unsetenv("UNISONO_TEST_WORD");
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(Spawn, RepeatedSpawnsLeaveNothingBehind) {
  spawn(ranks(2), [] {});
  const std::size_t descriptors = open_descriptors();
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(spawn(ranks(2), [i](int local_rank) { return 10 * i + local_rank; }), (std::vector<int>{10 * i, 10 * i + 1}));
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);  // no children
  EXPECT_EQ(errno, ECHILD);
}

TEST(Spawn, TheParentMayHaveWorkedAloneBefore) {
  std::vector<int> x{3, 4};
  all_reduce_async(x).wait();  // which has started a thread
  barrier();
  EXPECT_EQ(spawn(ranks(3), account_of).back().sum, 6);
  EXPECT_EQ(world_size(), 1);
  initialize();
  finalize();
  EXPECT_EQ(spawn(ranks(2), account_of).back().sum, 3);
}

TEST(Spawn, SpawnIsIndifferentToWhoTakesTheChildrenOfTheProcess) {
  struct sigaction original {};
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGCHLD, &ignore, &original);
  EXPECT_EQ(spawn(ranks(2), account_of).back().sum, 3);
  struct sigaction now {};
  ::sigaction(SIGCHLD, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_IGN);

  struct sigaction reaper {};
  reaper.sa_handler = [](int) {
    const int error = errno;
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    errno = error;
  };
  ::sigaction(SIGCHLD, &reaper, nullptr);
  EXPECT_EQ(spawn(ranks(3), account_of).back().sum, 6);
  try {
    spawn(ranks(2), [] {
      if (rank() == 1) ::raise(SIGKILL);
      barrier();
    });
    ADD_FAILURE() << "threw nothing";
  } catch (const LaunchFailed& error) {  // what the handler has taken is not made up
    EXPECT_NE(error.message().find("rank 1 ended before its function returned"), std::string::npos) << error.what();
    EXPECT_FALSE(error.ends().at(1).exit_code.has_value());
    EXPECT_EQ(error.ends().at(1).signal, "");
  }
  ::sigaction(SIGCHLD, &original, nullptr);
}

// K11: a rank is ended with the thread that has forked it (PR_SET_PDEATHSIG goes by threads). That thread waits for it, and the end of others of its
// process, also of the first one, is no end of the ranks.
TEST(SpawnThreads, K11RanksLiveAsLongAsTheThreadThatWaitsForThem) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([] {
      int sum = 0;
      std::thread([&] { sum += spawn(ranks(2), account_of).back().sum; }).join();  // a thread that ends right after
      std::thread bystander([] {});
      sum += spawn(ranks(2), [] {
               for (int i = 0; i < 200; ++i) barrier();
               return all_reduce(1);
             }).back();
      bystander.join();
      ::_exit(sum == 3 + 2 ? 0 : 1);
    }).detach();
    ::syscall(SYS_exit, 0);  // of this thread alone: the process goes on without its first one
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

/// The exit code of a child that runs `body`; -1 where it does not end by itself.
template <class F>
int in_child(F&& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Output of ranks must not become their results.
TEST(Spawn, SpawnWorksWithoutStandardDescriptors) {
  EXPECT_EQ(in_child([] {
              for (int fd = 0; fd <= 2; ++fd) ::close(fd);
              const auto sums = spawn(ranks(3), [](int local_rank) {
                std::printf("rank %d says something\n", local_rank);
                std::fflush(stdout);
                return all_reduce(local_rank);
              });
              return sums == std::vector<int>{3, 3, 3} ? 0 : 1;
            }),
            0);
}

}  // namespace
}  // namespace unisono::testing
