// Ranks that cannot meet: wrong names, numbers and variables, R1, R2, R3, R9; a failed initialize leaves nothing, and the next one works.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "covers.h"
#include "faults.h"

namespace unisono::testing {
namespace {

struct Refusal {
  std::string name;
  Variables variables;
  std::string error;
  std::vector<std::string> said;
};

class Refused : public ::testing::TestWithParam<Refusal> {};

// A process by itself: refused at once, with the sources named.
TEST_P(Refused, AMeetingIsRefusedWithATypedErrorThatNamesTheCulprit) {
  RunningCommand process(faulty_rank({"init"}), {.environment = GetParam().variables});
  EXPECT_EQ(process.wait(std::chrono::seconds(50)), 1) << process.out() << process.err();
  const auto lines = lines_of(process.out());
  const std::string failed = line_of(lines, "failed: ");
  EXPECT_TRUE(failed.starts_with(GetParam().error + " ")) << failed;
  for (const auto& part : GetParam().said) EXPECT_NE(failed.find(part), std::string::npos) << part << " in " << failed;
  EXPECT_EQ(line_of(lines, "initialized "), "false");
}

INSTANTIATE_TEST_SUITE_P(
    Faults, Refused,
    ::testing::Values(
        Refusal{"NoRank", {{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1"}}, "InvalidArgument", {"RANK is not set"}},
        Refusal{"NoWorldSize", {{"RANK", "0"}}, "InvalidArgument", {"WORLD_SIZE is not set"}},
        Refusal{"NoPort", {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}}, "InvalidArgument", {"MASTER_PORT is not set"}},
        Refusal{"NoAddress", {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}}, "InvalidArgument", {"MASTER_ADDR is not set"}},
        Refusal{"RankTooLarge",
                {{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1"}},
                "InvalidArgument",
                {"rank 2 is not within a world of 2"}},
        Refusal{"RankNegative",
                {{"RANK", "-1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1"}},
                "InvalidArgument",
                {"rank -1"}},
        Refusal{"NoNumber", {{"RANK", "one"}, {"WORLD_SIZE", "2"}}, "InvalidArgument", {"RANK", "one"}},
        Refusal{"PortOutOfRange",
                {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "65536"}},
                "InvalidArgument",
                {"MASTER_PORT is 65536"}},
        Refusal{"R9SlurmContradicts",
                {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}},
                "InvalidArgument",
                {"RANK", "SLURM_PROCID"}},
        Refusal{"R9MpiContradicts",
                {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "3"}},
                "InvalidArgument",
                {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"}},
        Refusal{"ArgumentContradicts",
                {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TEST_INIT_RANK", "1"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1"}},
                "InvalidArgument",
                {"the rank is 1 by the argument rank, but 0 by RANK"}},
        Refusal{"UnknownBackend", {{"TEST_INIT_BACKEND", "carrier-pigeon"}}, "InvalidArgument", {"carrier-pigeon", "native"}},
        Refusal{"UnknownBackendByVariable", {{"UNISONO_BACKEND", "carrier-pigeon"}}, "InvalidArgument", {"carrier-pigeon"}},
        Refusal{"AbsentBackend", {{"TEST_INIT_BACKEND", "nccl"}}, "BackendUnavailable", {"nccl"}},
        Refusal{"AbsentBackendOfADevice", {{"TEST_INIT_BACKEND", "cpu:native,cuda:nccl"}}, "BackendUnavailable", {"nccl"}},
        Refusal{"MalformedBackend", {{"TEST_INIT_BACKEND", "tpu:native"}}, "InvalidArgument", {"tpu:native"}},
        Refusal{"UnknownMethod", {{"TEST_INIT_METHOD", "smoke://signals"}}, "InvalidArgument", {"smoke"}},
        Refusal{"NoSizeForFile", {{"TEST_INIT_METHOD", "file:///tmp/unisono-nobody-comes"}}, "InvalidArgument", {"world_size"}},
        Refusal{"UnknownSchedule",
                {{"UNISONO_SCHEDULE", "broadcast=chain,all_reduce=rnig"}},
                "InvalidArgument",
                {"UNISONO_SCHEDULE: all_reduce has no algorithm \"rnig\"; it has", "recursive_doubling"}},
        Refusal{
            "ScheduleOfNoOperation", {{"UNISONO_SCHEDULE", "allreduce=ring"}}, "InvalidArgument", {"\"allreduce=ring\" is not OPERATION=ALGORITHM"}},
        Refusal{"MalformedNetwork", {{"UNISONO_NETWORK", "20,3"}}, "InvalidArgument", {"UNISONO_NETWORK: \"20,3\""}},
        Refusal{"NoTimeout", {{"UNISONO_TIMEOUT", "0"}}, "InvalidArgument", {"UNISONO_TIMEOUT"}}),
    [](const auto& one) { return one.param.name; });

// The first initialize of every rank is refused, the second is right, all among the same processes.
TEST(Meeting, K01AFailedInitializeLeavesNothing) {
  COVERS("K-01");
  const std::vector<std::pair<Variables, std::string>> wrongs{
      {{{"TEST_INIT_BACKEND", "carrier-pigeon"}}, "InvalidArgument"},
      {{{"TEST_INIT_BACKEND", "nccl"}}, "BackendUnavailable"},
      {{{"TEST_INIT_BACKEND", "serial"}}, "InvalidArgument"},
      {{{"TEST_INIT_BACKEND", "cuda:nccl,cpu:native"}}, "BackendUnavailable"},
      {{{"TEST_INIT_RANK", "9"}}, "InvalidArgument"},
      {{{"TEST_INIT_WORLD_SIZE", "5"}}, "InvalidArgument"},
  };
  for (const auto& [variables, error] : wrongs) {
    RunningCommand job(faulty_job(3, {"init", "again"}), {.environment = variables});
    EXPECT_EQ(job.wait(std::chrono::seconds(50)), 0) << job.out() << job.err();
    for (int r = 0; r < 3; ++r) {
      const auto lines = lines_of_rank(job, r);
      EXPECT_TRUE(line_of(lines, "failed: ").starts_with(error + " ")) << job.out();
      EXPECT_EQ(line_of(lines, "initialized "), "false");
      EXPECT_EQ(line_of(lines, "now "), fmt::format("rank {} of 3 on native", r));
    }
  }
}

class ARankThatCannotGoOn : public ::testing::TestWithParam<std::string> {};

// A single rank is wrong: it is told, and so are the others, which wait for it.
TEST_P(ARankThatCannotGoOn, ARankThatCannotGoOnTellsTheOthers) {
  const std::string script = "if [ $RANK = 1 ]; then export " + GetParam() + "; fi; exec " + FAULT_RANK + " init";
  RunningCommand job(unisono_command({"run", "-n", "3", "--", "/bin/sh", "-c", script}));
  EXPECT_EQ(job.wait(std::chrono::seconds(50)), 1) << job.out() << job.err();
  EXPECT_TRUE(line_of(lines_of_rank(job, 1), "failed: ").starts_with("InvalidArgument ")) << job.out();
  for (const int r : {0, 2}) {
    const std::string failed = line_of(lines_of_rank(job, r), "failed: ");
    // All compare what they ask for; who is late finds that rank 1 has given up.
    EXPECT_TRUE(failed.starts_with("InvalidArgument ") || failed.starts_with("PeerFailed ")) << failed;
    EXPECT_EQ(word_after(failed, "culprit="), "1") << failed;
  }
}
INSTANTIATE_TEST_SUITE_P(Faults, ARankThatCannotGoOn, ::testing::Values("TEST_INIT_BACKEND=serial", "UNISONO_SCHEDULE=all_reduce=rnig"));

class DiesBeforeTheOthersAreThere : public ::testing::TestWithParam<std::string> {};

// K1, m0 and m1: a rank that ends, in whatever way, before it has joined.
TEST_P(DiesBeforeTheOthersAreThere, K1TheOthersAreTold) {
  const std::string script = "if [ $RANK = 1 ]; then " + GetParam() + "; fi; exec " + FAULT_RANK + " init";
  RunningCommand job(unisono_command({"run", "-n", "3", "--", "/bin/sh", "-c", script}));
  EXPECT_NE(job.wait(std::chrono::seconds(50)), 0) << job.out() << job.err();
  for (const int r : {0, 2}) {
    const std::string failed = line_of(lines_of_rank(job, r), "failed: ");
    EXPECT_TRUE(failed.starts_with("PeerFailed cause=" + std::string(GetParam().starts_with("kill") ? "killed" : "exited"))) << failed;
    EXPECT_EQ(word_after(failed, "culprit="), "1") << failed;
  }
}
INSTANTIATE_TEST_SUITE_P(Faults, DiesBeforeTheOthersAreThere, ::testing::Values("kill -9 $$", "exit 7", "exit 0"));

TEST(Meeting, NamesOfBackendsAreReadInAnyCaseAndForDevices) {
  for (const char* backend : {"CPU:Native", "NATIVE", "cpu:native", "Auto"}) {
    RunningCommand job(faulty_job(2, {"init"}), {.environment = {{"TEST_INIT_BACKEND", backend}}});
    EXPECT_EQ(job.wait(), 0) << job.out() << job.err();
    for (int r = 0; r < 2; ++r) EXPECT_EQ(line_of(lines_of_rank(job, r), "rank "), fmt::format("{} of 2 on native", r));
  }
}

TEST(Meeting, TheVariableOverridesAutoOnly) {
  RunningCommand automatic(faulty_rank({"init"}), {.environment = {{"UNISONO_BACKEND", "native"}}});
  EXPECT_EQ(automatic.wait(), 0) << automatic.out() << automatic.err();
  EXPECT_EQ(line_of(lines_of(automatic.out()), "rank "), "0 of 1 on native");
  RunningCommand named(faulty_rank({"init"}), {.environment = {{"UNISONO_BACKEND", "native"}, {"TEST_INIT_BACKEND", "serial"}}});
  EXPECT_EQ(named.wait(), 0) << named.out() << named.err();
  EXPECT_EQ(line_of(lines_of(named.out()), "rank "), "0 of 1 on serial");
}

RunningCommand::Options at(int port, int rank, int size, int timeout_ms = 60'000) {
  return {.environment = {{"TEST_INIT_METHOD", fmt::format("tcp://127.0.0.1:{}", port)},
                          {"TEST_INIT_RANK", std::to_string(rank)},
                          {"TEST_INIT_WORLD_SIZE", std::to_string(size)},
                          {"TEST_INIT_TIMEOUT_MS", std::to_string(timeout_ms)}}};
}

TEST(Meeting, R1AMissingRankIsNamedToAll) {
  const int port = free_port();
  RunningCommand zero(faulty_rank({"init"}), at(port, 0, 4, 5000)), two(faulty_rank({"init"}), at(port, 2, 4, 5000));
  for (RunningCommand* rank : {&zero, &two}) {
    EXPECT_EQ(rank->wait(std::chrono::seconds(60)), 1) << rank->out() << rank->err();
    const std::string failed = line_of(lines_of(rank->out()), "failed: ");
    EXPECT_TRUE(failed.starts_with("Timeout missing=1,3 ")) << failed;
  }
}

TEST(Meeting, R2ADuplicateRankIsRefusedAndTheJobIsUnharmed) {
  const int port = free_port();
  RunningCommand zero(faulty_rank({"init"}), at(port, 0, 3)), one(faulty_rank({"init"}), at(port, 1, 3)),
      again(faulty_rank({"init"}), at(port, 1, 3));
  // Either of the two may be the second one.
  ASSERT_TRUE(eventually([&] {
    one.until([] { return false; }, std::chrono::milliseconds(20));
    again.until([] { return false; }, std::chrono::milliseconds(20));
    return count(one.out() + again.out(), "failed: ") > 0;
  }));
  RunningCommand& refused = count(one.out(), "failed: ") > 0 ? one : again;
  RunningCommand& taken = &refused == &one ? again : one;
  EXPECT_EQ(refused.wait(), 1);
  const std::string failed = line_of(lines_of(refused.out()), "failed: ");
  EXPECT_TRUE(failed.starts_with("InvalidArgument ")) << failed;
  for (const RunningCommand* process : {&refused, &taken}) EXPECT_NE(failed.find(std::to_string(process->pid())), std::string::npos) << failed;
  RunningCommand two(faulty_rank({"init"}), at(port, 2, 3));
  for (RunningCommand* rank : {&zero, &taken, &two}) EXPECT_EQ(rank->wait(), 0) << rank->out() << rank->err();
}

TEST(Meeting, R3BothLearnOfDifferentWorldSizes) {
  const int port = free_port();
  RunningCommand zero(faulty_rank({"init"}), at(port, 0, 2)), one(faulty_rank({"init"}), at(port, 1, 3));
  for (RunningCommand* rank : {&zero, &one}) {
    EXPECT_EQ(rank->wait(std::chrono::seconds(60)), 1) << rank->out() << rank->err();
    const std::string failed = line_of(lines_of(rank->out()), "failed: ");
    EXPECT_TRUE(failed.starts_with("Mismatch ")) << failed;
    EXPECT_NE(failed.find("says 2"), std::string::npos) << failed;
    EXPECT_NE(failed.find("says 3"), std::string::npos) << failed;
  }
}

TEST(Meeting, RanksAreGivenWhereAFileDoesNotSay) {
  DirectJob job(DirectJob::Method::file, 4, {"init"});
  std::string ranks;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(job[i].wait(), 0) << job[i].out() << job[i].err();
    ranks += word_after(job[i].out(), "rank ");
  }
  std::sort(ranks.begin(), ranks.end());
  EXPECT_EQ(ranks, "0123");
}

// H2: what the system refuses is said, by every rank, and nobody hangs.
TEST(Meeting, H2RefusedSharedMemoryIsAnError) {
  if (::access("/usr/bin/strace", X_OK) != 0) GTEST_SKIP() << "skipped: no strace";
  const std::string injected =
      std::string("if [ $RANK = 0 ]; then exec /usr/bin/strace -f -o /dev/null -e trace=memfd_create -e inject=memfd_create:error=EPERM ") +
      FAULT_RANK + " init; fi; exec " + FAULT_RANK + " init";
  RunningCommand job(unisono_command({"run", "-n", "3", "--", "/bin/sh", "-c", injected}));
  EXPECT_EQ(job.wait(std::chrono::seconds(30)), 1) << job.out() << job.err();
  const std::string failed = line_of(lines_of_rank(job, 0), "failed: ");
  if (failed.empty() && job.err().find("strace") != std::string::npos) GTEST_SKIP() << "skipped: strace may not trace here";
  EXPECT_TRUE(failed.starts_with("BackendUnavailable ")) << failed;
  EXPECT_NE(failed.find("memfd_create"), std::string::npos) << failed;
  for (const int r : {1, 2}) {
    const std::string told = line_of(lines_of_rank(job, r), "failed: ");
    EXPECT_TRUE(told.starts_with("PeerFailed ")) << told;
    EXPECT_EQ(word_after(told, "culprit="), "0") << told;
    EXPECT_NE(told.find("memfd_create"), std::string::npos) << told;
  }
}

// H3: too few descriptors are an error that says so. All jobs are under way at once, because the other ranks of most of them wait for the whole
// timeout.
TEST(Meeting, H3FewDescriptorsAreAnErrorWithTheNumbersOrNoMatter) {
  struct Job {
    int descriptors = 0;  ///< of rank 0
    std::vector<std::unique_ptr<RunningCommand>> ranks;
  };
  std::vector<Job> jobs;
  for (const int descriptors : {5, 8, 12, 16, 17, 18, 20}) {
    const int port = free_port();
    Job& job = jobs.emplace_back(Job{descriptors, {}});
    for (int r = 0; r < 3; ++r) {
      job.ranks.push_back(std::make_unique<RunningCommand>(
          std::vector<std::string>{"/bin/sh", "-c", fmt::format("ulimit -n {}; exec {} init", r == 0 ? descriptors : 64, FAULT_RANK)},
          at(port, r, 3, 12'000)));
    }
  }
  for (const auto& [descriptors, ranks] : jobs) {
    SCOPED_TRACE(descriptors);
    const int code = ranks[0]->wait(std::chrono::seconds(60));
    EXPECT_TRUE(code == 0 || code == 1) << code << ranks[0]->out() << ranks[0]->err();
    if (code == 1) {
      const std::string failed = line_of(lines_of(ranks[0]->out()), "failed: ");
      EXPECT_TRUE(failed.starts_with("BackendUnavailable ")) << failed;
      EXPECT_NE(failed.find(fmt::format("of {} are in use", descriptors)), std::string::npos) << failed;
    }
    for (std::size_t r = 1; r < 3; ++r) EXPECT_EQ(ranks[r]->wait(std::chrono::seconds(60)), code);  // 1: a Timeout
  }
}

}  // namespace
}  // namespace unisono::testing
