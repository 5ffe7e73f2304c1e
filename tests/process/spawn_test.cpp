// spawn: what the processes are, what they return, and what is refused. Its failures are in spawn_failure_test.cpp.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "covers.h"
#include "running_command.h"
#include "spawn_ranks.h"
#include "two_nodes.h"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

struct Account {
  int rank = -1, world_size = 0, local_rank = -1, given = -1, sum = 0, pid = 0;
  std::string model, launcher;
  std::vector<double> halves;
  UNISONO_FIELDS(rank, world_size, local_rank, given, sum, pid, model, launcher, halves);
};

Account account_of(int given) {
  Account account{
      rank(), world_size(), local_rank(), given, all_reduce(rank() + 1), ::getpid(), model_name(), std::string(to_string(infer_launcher())), {}};
  for (int i = 0; i <= rank(); ++i) account.halves.push_back(i / 2.0 + rank());
  return account;
}

class SpawnOfRanks : public ::testing::TestWithParam<int> {};

TEST_P(SpawnOfRanks, EveryRankHasItsWorldAndItsResultComesBackInOrder) {
  COVERS("I-14", "I-15", "I-16", "C-26");
  const int n = GetParam();
  const auto accounts = spawn(ranks(n), account_of);
  ASSERT_EQ(accounts.size(), static_cast<std::size_t>(n));
  std::set<int> pids{::getpid()};
  for (int r = 0; r < n; ++r) {
    const Account& account = accounts[static_cast<std::size_t>(r)];
    EXPECT_EQ(account.rank, r);
    EXPECT_EQ(account.world_size, n);
    EXPECT_EQ(account.local_rank, r);
    EXPECT_EQ(account.given, r);
    EXPECT_EQ(account.sum, n * (n + 1) / 2);
    EXPECT_EQ(account.model, n == 1 ? "serial" : "native-dist");
    EXPECT_EQ(account.launcher, "unisono");
    ASSERT_EQ(account.halves.size(), static_cast<std::size_t>(r) + 1);
    EXPECT_EQ(account.halves.back(), r / 2.0 + r);
    pids.insert(account.pid);
  }
  EXPECT_EQ(pids.size(), static_cast<std::size_t>(n) + 1);
  EXPECT_FALSE(is_initialized());
}

INSTANTIATE_TEST_SUITE_P(Spawn, SpawnOfRanks, ::testing::Values(1, 2, 3, 4, 5, 7, 8));

TEST(Spawn, TheFunctionGetsItsLocalRankIfItTakesOne) {
  COVERS("C-14", "K-52");
  const auto with = spawn(
      ranks(3), [](int local_rank, int factor, const std::string& word) { return fmt::format("{}{}", word, factor * local_rank); }, 7,
      std::string("x"));
  EXPECT_EQ(with, (std::vector<std::string>{"x0", "x7", "x14"}));
  const auto without = spawn(
      ranks(3), [](int factor) { return factor + rank(); }, 10);
  EXPECT_EQ(without, (std::vector<int>{10, 11, 12}));
  const auto nothing = spawn(ranks(2), [] { return true; });
  EXPECT_EQ(nothing, (std::vector<bool>{true, true}));
  static_assert(std::is_void_v<decltype(spawn(ranks(1), [] {}))>);
  spawn(ranks(2), [](int local_rank) { static_cast<void>(all_reduce(local_rank)); });
}

TEST(Spawn, ArgumentsAndMemoryAreCopies) {
  std::vector<int> shared{1, 2, 3};
  int counter = 5;
  const auto sums = spawn(
      ranks(3),
      [&counter](std::vector<int>& x) {
        x[0] = 100 * rank();
        counter += rank();
        return std::accumulate(x.begin(), x.end(), counter);
      },
      shared);
  EXPECT_EQ(sums, (std::vector<int>{10, 111, 212}));
  EXPECT_EQ(shared, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(counter, 5);
}

// The world that counts is the one in which it is called, not the one in which it was made.
TEST(Spawn, WhatRunsOnOneRankOnlyMayBeMadeBefore) {
  COVERS("I-44");
  auto first = one_rank_only([] { return 10 + rank(); });
  auto first_of_all = one_rank_only([] { return 20 + rank(); }, {.with_barrier = true});
  const auto results = spawn(ranks(3), [&] { return std::pair(first(), first_of_all()); });
  EXPECT_EQ(results[0], std::pair(std::optional(10), std::optional(20)));
  for (const int r : {1, 2}) EXPECT_EQ(results[static_cast<std::size_t>(r)], std::pair(std::optional<int>(), std::optional<int>()));
}

// More than any pipe holds, from all ranks at once.
TEST(Spawn, ResultsOfAnySize) {
  COVERS("C-26");
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{65'536}, std::size_t{65'537}, std::size_t{9'000'011}}) {
    const auto texts = spawn(ranks(3), [size](int local_rank) {
      std::string text(size, static_cast<char>('a' + local_rank));
      if (size > 1) text.back() = static_cast<char>('A' + local_rank);
      return text;
    });
    ASSERT_EQ(texts.size(), 3u);
    for (int r = 0; r < 3; ++r) {
      std::string expected(size, static_cast<char>('a' + r));
      if (size > 1) expected.back() = static_cast<char>('A' + r);
      EXPECT_TRUE(texts[static_cast<std::size_t>(r)] == expected) << size;
    }
  }
}

// One node may meet elsewhere than through its launcher, if it is told to.
TEST(Spawn, MeetsWhereInitMethodSays) {
  COVERS("I-18");
  const TemporaryFolder folder;
  SpawnOptions options = ranks(3);
  options.init_method = "file://" + folder.path() + "/meeting";
  for (int again = 0; again < 2; ++again) {
    const auto accounts = spawn(options, account_of);
    ASSERT_EQ(accounts.size(), 3u);
    for (const Account& account : accounts) EXPECT_EQ(account.sum, 6);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  options.init_method = "env://";
  EXPECT_EQ(spawn(options, account_of).back().sum, 6);
}

// A job of one node needs no port at all.
TEST(Spawn, NobodyListens) {
  COVERS("Q-12");
  const auto inside = spawn(ranks(2), [] {
    barrier();
    const std::size_t listening = listening_sockets(::getpid()).size() + listening_sockets(::getppid()).size();
    barrier();
    return listening;
  });
  EXPECT_EQ(inside, (std::vector<std::size_t>{0, 0}));
}

std::vector<std::string> environment_now() {
  std::vector<std::string> lines;
  for (char** entry = environ; *entry != nullptr; ++entry) lines.emplace_back(*entry);
  return lines;
}

// What the library tells a rank of itself is not in anybody's environment, and what the program does to its own stays.
TEST(Environment, IsReadAndNeverWritten) {
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
TEST(Environment, IsTheSameAfterAFailure) {
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

// What the program has changed meanwhile is not undone.
TEST(Environment, KeepsWhatTheProgramChangesInAContext) {
  COVERS("K-35", "I-39", "I-42");
  ::setenv("UNISONO_TEST_WORD", "before", 1);
  initialize();
  EXPECT_THROW(initialize(), AlreadyInitialized);
  ::setenv("UNISONO_TEST_WORD", "meanwhile", 1);
  finalize();
  EXPECT_STREQ(::getenv("UNISONO_TEST_WORD"), "meanwhile");
  ::unsetenv("UNISONO_TEST_WORD");
}

// A backend that the program has registered goes with the fork.
TEST(Spawn, OnABackendOfTheProgramsOwn) {
  COVERS("I-48");
  register_engine("borrowed", [](const EngineOptions& options) { return std::make_unique<Borrowed>(options); });
  const auto answers =
      spawn({.backend = "borrowed", .nproc_per_node = 3}, [] { return std::pair(backend().value_or("none"), all_reduce(rank() + 1)); });
  EXPECT_EQ(answers, (std::vector(3, std::pair(std::string("borrowed"), 6))));
}

// What an engine is told of a group that is formed.
TEST(Spawn, ABackendOfTheProgramsOwnIsToldOfItsGroup) {
  static EngineOptions told;
  register_engine("curious", [](const EngineOptions& options) {
    told = options;
    return std::make_unique<Borrowed>(options);
  });
  const auto answers = spawn({.backend = "native", .nproc_per_node = 3}, [] {
    const auto group = new_group({2, 0}, {.backend = "curious", .timeout = std::chrono::seconds(70)});
    if (!group) return std::string("none");
    return fmt::format("{} {} {} {} {}", told.group_name == group->name(), told.rank == group->rank(), fmt::join(told.global_ranks, ","),
                       fmt::join(told.hosts, ","), told.timeout <= std::chrono::seconds(70) && told.timeout > std::chrono::seconds(10));
  });
  EXPECT_EQ(answers, (std::vector<std::string>{"true true 2,0 0,0 true", "none", "true true 2,0 0,0 true"}));
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(Spawn, AgainAndAgainLeavesNothingBehind) {
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

TEST(Spawn, IsIndifferentToWhoTakesTheChildrenOfTheProcess) {
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

namespace {

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

}  // namespace

// What ranks print must not become what they return.
TEST(Spawn, WorksWithoutStandardDescriptors) {
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

// ---- several nodes ---------------------------------------------------------------------------------------------

TEST(SpawnNodes, MeetInAFile) {
  COVERS("I-15", "I-16", "I-18", "K-44");
  const TemporaryFolder folder;
  EXPECT_EQ(two_nodes("node", {"file://" + folder.path() + "/meeting"}), four_ranks);
}
TEST(SpawnNodes, MeetAtATcpAddress) {
  COVERS("I-15", "I-16", "I-18", "K-44");
  EXPECT_EQ(two_nodes("node", {fmt::format("tcp://127.0.0.1:{}", free_port())}), four_ranks);
}
TEST(SpawnNodes, MeetAtTheMasterAddress) {
  COVERS("I-17", "B-12");
  EXPECT_EQ(two_nodes("node", {"env", "127.0.0.1", std::to_string(free_port())}), four_ranks);
}
TEST(SpawnNodes, MeetWhereTheEnvironmentSays) {
  COVERS("I-17", "C-13", "Q-12", "E-05", "E-06");
  EXPECT_EQ(two_nodes("node", {"env"}, {{"MASTER_ADDR", "localhost"}, {"MASTER_PORT", std::to_string(free_port())}}), four_ranks);
}
TEST(SpawnNodes, AreMachinesToLaunch) {
  COVERS("V-01", "V-02", "V-03");
  EXPECT_EQ(two_nodes("machine", {fmt::format("tcp://127.0.0.1:{}", free_port())}), four_ranks);
}

// ---- what is refused -------------------------------------------------------------------------------------------

template <class E>
std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& other) {
    return std::string("something else: ") + other.what();
  }
  return "nothing";
}

// One node, too, meets where it is told to: a port that is taken is an error, and none that is free is taken in its place.
TEST(SpawnNodes, OneNodeMeetsAtTheMasterPort) {
  COVERS("I-17");
  SpawnOptions options = ranks(3);
  options.master_port = free_port();
  EXPECT_EQ(spawn(options, [](int local_rank) { return all_reduce(local_rank); }), (std::vector<int>{3, 3, 3}));
  const auto taken = base::try_listen(base::resolve("127.0.0.1", 0).front());
  options.master_port = base::local_address(taken.fd.get()).port();
  EXPECT_NE(refusal<LaunchFailed>([&] { spawn(options, [] {}); }).find(std::to_string(options.master_port)), std::string::npos);
  options.master_port = 0;
  options.master_addr = "127.0.0.1";
  EXPECT_NE(refusal<InvalidArgument>([&] { spawn(options, [] {}); }).find("without master_port"), std::string::npos);
}

std::string spawn_refusal_of(SpawnOptions options) {
  return refusal<InvalidArgument>([&] { spawn(options, [] {}); });
}

TEST(SpawnRefuses, NumbersAndPlacesThatMakeNoSense) {
  COVERS("I-15", "I-16", "I-17", "I-18", "B-12");
  const auto has = [](const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  };
  has(spawn_refusal_of({.nproc_per_node = 0}), {"spawn", "nproc_per_node", "0"});
  has(spawn_refusal_of({.nproc_per_node = -3}), {"nproc_per_node", "-3"});
  has(spawn_refusal_of({.nnodes = 0}), {"nnodes", "0"});
  has(spawn_refusal_of({.nnodes = 2, .node_rank = 2, .init_method = "file:///tmp/x"}), {"node_rank", "from 0 to 1", "2"});
  has(spawn_refusal_of({.node_rank = -1}), {"node_rank", "-1"});
  has(spawn_refusal_of({.nproc_per_node = 2'000'000'000}), {"65536", "2000000000"});
  has(spawn_refusal_of({.nproc_per_node = 65536, .nnodes = 65536, .init_method = "file:///tmp/x"}), {"65536"});
  has(spawn_refusal_of({.master_port = 70'000}), {"master_port", "70000"});
  has(spawn_refusal_of({.timeout = std::chrono::milliseconds(0)}), {"timeout"});
  has(spawn_refusal_of({.master_addr = "127.0.0.1", .init_method = "file:///tmp/x"}), {"master_addr", "file:///tmp/x"});
  has(spawn_refusal_of({.master_port = 1234, .init_method = "tcp://127.0.0.1:1234"}), {"master_port", "tcp://127.0.0.1:1234"});
  has(spawn_refusal_of({.init_method = "http://127.0.0.1"}), {"init_method", "http://"});
  has(spawn_refusal_of({.nnodes = 2}), {"2 nodes", "master_addr"});
  has(spawn_refusal_of({.nnodes = 2, .master_addr = "127.0.0.1"}), {"2 nodes", "master_port"});
}

TEST(SpawnRefuses, BackendsThatCannotServeIt) {
  COVERS("I-14", "K-77", "Q-27", "T-04", "K-04");
  EXPECT_NE(spawn_refusal_of({.backend = "abc"}).find("unknown backend \"abc\""), std::string::npos);
  EXPECT_NE(spawn_refusal_of({.backend = "serial", .nproc_per_node = 2}).find("serial is for one process"), std::string::npos);
  EXPECT_EQ(spawn({.backend = "Serial"}, [] { return world_size(); }), std::vector<int>{1});
  EXPECT_EQ(spawn({.backend = "NATIVE", .nproc_per_node = 2}, [] { return backend().value_or("none"); }),
            (std::vector<std::string>{"native", "native"}));
  EXPECT_NE(refusal<Unsupported>([] { spawn({.backend = "mpi", .nproc_per_node = 2}, [] {}); }).find("mpirun"), std::string::npos);
  if (!is_backend_available("nccl")) {
    EXPECT_NE(refusal<BackendUnavailable>([] { spawn({.backend = "nccl"}, [] {}); }).find("nccl"), std::string::npos);
  }
}

// One engine, or one for each kind of device.
TEST(SpawnRefuses, BackendsOfDevicesThatContradictEachOther) {
  const auto named = spawn({.backend = "cpu:native", .nproc_per_node = 2}, [] { return backend().value_or("none"); });
  EXPECT_EQ(named, (std::vector<std::string>{"native", "native"}));
  EXPECT_NE(spawn_refusal_of({.backend = "cpu:native,cpu:serial"}).find("two engines for one kind of device"), std::string::npos);
  EXPECT_NE(spawn_refusal_of({.backend = "tpu:native"}).find("malformed backend"), std::string::npos);
  EXPECT_NE(spawn_refusal_of({.backend = "cpu:abc"}).find("unknown backend \"abc\""), std::string::npos);
  if (!is_backend_available("nccl")) {
    EXPECT_NE(refusal<BackendUnavailable>([] { spawn({.backend = "cpu:native,cuda:nccl"}, [] {}); }).find("nccl"), std::string::npos);
  }
}

TEST(SpawnRefuses, JobsWithinJobs) {
  {
    const Context context;
    EXPECT_NE(refusal<AlreadyInitialized>([] { spawn(ranks(2), [] {}); }).find("nested use"), std::string::npos);
    EXPECT_NE(refusal<AlreadyInitialized>([] { launch([] {}); }).find("nested use"), std::string::npos);
  }
  run_threads(2, [] { EXPECT_THROW(spawn(ranks(2), [] {}), AlreadyInitialized); });
  const auto inside = spawn(ranks(2), [](int) { return refusal<AlreadyInitialized>([] { spawn(ranks(2), [] {}); }); });
  for (const auto& text : inside) EXPECT_NE(text.find("nested use"), std::string::npos) << text;

  RunningCommand launched(unisono_command({"run", "-n", "2", SPAWN_HELPER, "nested"}));
  EXPECT_EQ(launched.wait(), 0) << launched.err();
  EXPECT_EQ(count(launched.out(), "InvalidArgument spawn: nested use: this process was started by unisono as one of 2"), 2) << launched.out();
  EXPECT_EQ(count(launched.out(), "InvalidArgument launch: nested use"), 4) << launched.out();
  RunningCommand initialized(unisono_command({"run", "-n", "2", SPAWN_HELPER, "nested-initialized"}));
  EXPECT_EQ(initialized.wait(), 0) << initialized.err();
  EXPECT_EQ(count(initialized.out(), "AlreadyInitialized spawn: nested use"), 2) << initialized.out();
}

TEST(Spawn, WorksWhereALauncherHasStartedOneProcess) {
  RunningCommand job(unisono_command({"run", "-n", "1", SPAWN_HELPER, "after-job"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(count(job.out(), "alone 1"), 1);
  EXPECT_EQ(count(job.out(), "[0] rank 1 of 2, local 1 1, sum 1\n"), 1) << job.out();
}

// ---- launch ----------------------------------------------------------------------------------------------------

TEST(Launch, RunsOneProcessHereAndSeveralElsewhere) {
  COVERS("V-01", "V-04", "V-05", "K-51", "K-52");
  const auto alone =
      launch([](int local_rank, int base) { return std::tuple(::getpid(), is_initialized(), world_size(), base + local_rank); }, 1, 1, 0, "", 40);
  EXPECT_EQ(alone, (std::vector{std::tuple(::getpid(), true, 1, 40)}));
  EXPECT_FALSE(is_initialized());
  const auto many = launch([](int base) { return base + all_reduce(rank()); }, 1, 3, 0, "", 40);
  EXPECT_EQ(many, (std::vector<int>{43, 43, 43}));
  bool ran = false;
  launch([&ran] { ran = true; });
  EXPECT_TRUE(ran);
  launch([] { barrier(); }, 1, 2);
}

TEST(Launch, WhatASingleProcessThrowsIsThrown) {
  EXPECT_THROW(launch([] { throw std::out_of_range("no"); }), std::out_of_range);
  EXPECT_FALSE(is_initialized());
}

TEST(Launch, RefusesNumbersThatMakeNoSense) {
  COVERS("V-02", "V-03");
  const auto refused = [](int machines, int gpus, int rank, const std::string& url = "tcp://127.0.0.1:23456") {
    return refusal<InvalidArgument>([&] { launch([] {}, machines, gpus, rank, url); });
  };
  EXPECT_NE(refused(0, 1, 0).find("num_machines"), std::string::npos);
  EXPECT_NE(refused(1, 0, 0).find("num_gpus_per_machine"), std::string::npos);
  EXPECT_NE(refused(2, 2, 2).find("machine_rank must be from 0 to 1, not 2"), std::string::npos);
  EXPECT_NE(refused(2, 2, -1).find("machine_rank"), std::string::npos);
  EXPECT_NE(refused(2, 2, 0, "").find("dist_url"), std::string::npos);
  EXPECT_NE(refused(1, 1, 0, "nonsense").find("nonsense"), std::string::npos);
}

// ---- output ----------------------------------------------------------------------------------------------------

class SpawnOutput : public ::testing::TestWithParam<std::string> {};

TEST_P(SpawnOutput, IsWrittenOnceAndLeavingIsTheParentsAffair) {
  RunningCommand program({SPAWN_HELPER, GetParam()});
  EXPECT_EQ(program.wait(), 0) << program.err();
  for (const char* line : {"before\n", "also before\n", "after\n", "at exit\n"}) {
    int times = 0;
    for (const auto& found : lines_of(program.out())) times += found + "\n" == line ? 1 : 0;
    EXPECT_EQ(times, 1) << line << program.out();
  }
  EXPECT_EQ(count(program.out(), "inside\n"), 4) << program.out();
}

INSTANTIATE_TEST_SUITE_P(Spawn, SpawnOutput, ::testing::Values("output", "output-unsynchronized"),
                         [](const auto& one) { return one.param == "output" ? "Synchronized" : "Unsynchronized"; });

}  // namespace
}  // namespace unisono::testing
