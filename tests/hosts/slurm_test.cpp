// Jobs of a real Slurm on two hosts: how their ranks meet, what they compute, and how they end.

#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "slurm_cluster.h"
#include "ssh_hosts.h"
#include "job.h"

namespace unisono::testing {
namespace {

class SlurmItself : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { cluster_.emplace(); }
  static void TearDownTestSuite() { cluster_.reset(); }
  void SetUp() override {
    if (!cluster().why_not().empty()) GTEST_SKIP() << "skipped: " << cluster().why_not();
  }
  void TearDown() override {
    if (!cluster().why_not().empty()) return;
    EXPECT_TRUE(eventually([&] { return cluster().started_processes().empty(); }, std::chrono::seconds(60)))
        << cluster().started_processes().size() << " processes are left\n"
        << (HasFailure() ? cluster().logs() : "");
  }

  static const SlurmCluster& cluster() { return *cluster_; }
  static std::string number_of(const RunningCommand& salloc) { return word_after(salloc.err(), "Granted job allocation "); }

  /// What ranks print that have moved data.
  static void expect_all_is_right(const RunningCommand& job, int ranks, bool has_tags) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string line = fmt::format("{}rank {} of {} by tcp, all is right\n", has_tags ? tag(rank) : "", rank, ranks);
      EXPECT_EQ(count(job.out(), line), 1) << job.out() << job.err();
    }
  }

 private:
  static std::optional<SlurmCluster> cluster_;
};
std::optional<SlurmCluster> SlurmItself::cluster_;

TEST_F(SlurmItself, TasksOfSrunAreRanks) {
  for (const char* const mpi : {"none", "pmi2", "pmix"}) {
    const auto job = cluster().start({"srun", "--nodes=2", "--ntasks-per-node=2", fmt::format("--mpi={}", mpi), HOST_RANK, "move"});
    EXPECT_EQ(job->wait(), 0) << job->err() << cluster().logs();
    expect_all_is_right(*job, 4, false);
  }
}

TEST_F(SlurmItself, StepsOfOneJobRunAtTheSameTime) {
  write_script(cluster().folder() + "/steps", "#!/bin/sh\nsrun --overlap " HOST_RANK
                                              " work go >first &\n"
                                              "until [ $(grep -c working first) = 2 ]; do sleep 0.1; kill -0 $! || exit 8; done\n"
                                              "srun --overlap " HOST_RANK " move 1000; code=$?; touch go; wait $! || exit 9; exit $code\n");
  const auto both = cluster().start({"salloc", "--nodes=2", "./steps"});
  EXPECT_EQ(both->wait(), 0) << both->err() << both->out() << contents(cluster().folder() + "/first");
  expect_all_is_right(*both, 2, false);
}

TEST_F(SlurmItself, ALauncherOnEachNodeTakesItsPlaceFromSlurm) {
  for (const char* const mpi : {"none", "pmi2"}) {
    const auto job = cluster().start(
        {"srun", "--nodes=2", "--ntasks-per-node=1", fmt::format("--mpi={}", mpi), UNISONO_COMMAND, "run", "-n", "2", "--", HOST_RANK, "move"});
    EXPECT_EQ(job->wait(), 0) << job->err();
    expect_all_is_right(*job, 4, true);
  }
}

TEST_F(SlurmItself, TheShellOfAnAllocationUsesItWhole) {
  const auto job = cluster().start({"salloc", "--nodes=2", "--ntasks-per-node=2", UNISONO_COMMAND, "run", "--", HOST_RANK, "move"});
  EXPECT_EQ(job->wait(), 0) << job->err();
  expect_all_is_right(*job, 4, true);
  const auto uneven =
      cluster().start({"salloc", "--nodes=2", "--ntasks=3", UNISONO_COMMAND, "run", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE on $(hostname)"});
  EXPECT_EQ(uneven->wait(), 0) << uneven->err();
  EXPECT_EQ(count(uneven->out(), "[0] 0 of 3 on host0\n") + count(uneven->out(), "[2] 2 of 3 on host1\n"), 2) << uneven->out();
}

/// The batch script in docs/guide/several-hosts.md.
TEST_F(SlurmItself, TheScriptOfTheDocumentRuns) {
  const std::string document = contents(CLUSTERS_DOCUMENT), folder = cluster().folder();
  const auto begin = document.find("#!/bin/bash\n#SBATCH");
  ASSERT_NE(begin, std::string::npos);
  write_script(folder + "/job.sbatch", document.substr(begin, document.find("```", begin) - begin));
  write_script(folder + "/app", "#!/bin/sh\nexec " HOST_RANK " move 1000\n");
  const std::string command = UNISONO_COMMAND;
  const auto job = cluster().start({"sh", "-c", "PATH=${1%/*}:$PATH exec sbatch --parsable --wait job.sbatch", "-", command});
  EXPECT_EQ(job->wait(std::chrono::seconds(120)), 0) << job->err();
  ASSERT_FALSE(job->out().empty()) << job->err();
  const std::string number = lines_of(job->out()).front(), said = contents(fmt::format("{}/app-{}.log", folder, number));
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(count(said, fmt::format("[{}] rank {} of 8 by tcp, all is right\n", rank, rank)), 1) << said;
}

TEST_F(SlurmItself, AnAllocationIsExaminedWhole) {
  const auto doctor = cluster().start({"salloc", "--nodes=2", UNISONO_COMMAND, "doctor", "--json"});
  doctor->wait();  // with the findings of this machine
  const auto json = nlohmann::json::parse(doctor->out(), nullptr, false);
  ASSERT_TRUE(json.is_object()) << doctor->out() << doctor->err();
  EXPECT_EQ(json.at("hosts"), nlohmann::json({"host0", "host1"})) << doctor->out();
  EXPECT_TRUE(json.contains("latency_us")) << "they have measured what lies between them: " << doctor->out();
}

TEST_F(SlurmItself, AFailingRankEndsTheJobWithItsCode) {
  const std::vector<std::string> fails{"sh", "-c", "[ $RANK = 3 ] && exit 7; exec sleep 1000"};
  std::vector<std::string> whole{"salloc", "--nodes=2", "--ntasks-per-node=2", UNISONO_COMMAND, "run", "--grace", "3", "--"};
  whole.insert(whole.end(), fails.begin(), fails.end());
  const auto shell = cluster().start(whole);
  EXPECT_EQ(shell->wait(), 7) << shell->err();
  EXPECT_EQ(count(shell->err(), "first cause: rank 3 (pid "), 1) << shell->err();
  std::vector<std::string> each{"srun", "--nodes=2", "--ntasks-per-node=1", UNISONO_COMMAND, "run", "-n", "2", "--grace", "3", "--"};
  each.insert(each.end(), fails.begin(), fails.end());
  const auto launchers = cluster().start(each);
  EXPECT_EQ(launchers->wait(), 7) << launchers->err();
  EXPECT_GE(count(launchers->err(), "first cause: rank 3 (pid "), 1) << launchers->err();
  write_script(cluster().folder() + "/fails.sbatch", "#!/bin/sh\nexec " UNISONO_COMMAND " run -- sh -c '[ $RANK = 1 ] && exit 9; exec sleep 1000'\n");
  const auto batch = cluster().start({"sbatch", "--wait", "--nodes=2", "--output=fails.log", "fails.sbatch"});
  EXPECT_EQ(batch->wait(), 9) << batch->err() << contents(cluster().folder() + "/fails.log");
}

// srun ends with the greatest code of its tasks, so that of the death.
TEST_F(SlurmItself, TasksNameTheOneThatHasDied) {
  const auto job = cluster().start({"srun", "--nodes=2", "--ntasks-per-node=2", HOST_RANK, "fall", "3"});
  EXPECT_EQ(job->wait(), 128 + SIGABRT) << job->err();
  EXPECT_EQ(count(job->out(), "failed: PeerFailed: "), 3) << job->out();
  EXPECT_EQ(count(job->out(), "[culprit: rank 3 on host1]"), 3) << job->out();
}

TEST_F(SlurmItself, AJobThatIsCancelledEndsAndSaysSo) {
  const auto whole =
      cluster().start({"salloc", "--nodes=2", "--ntasks-per-node=2", UNISONO_COMMAND, "run", "--grace", "3", "--", HOST_RANK, "work", "nothing"});
  ASSERT_TRUE(whole->until_out_has("working\n", 4)) << whole->err();
  EXPECT_EQ(cluster().start({"scancel", number_of(*whole)})->wait(), 0);
  EXPECT_NE(whole->wait(), 0) << whole->err();
  EXPECT_EQ(count(whole->err(), "first cause: the job was cancelled (SIGTERM)\n"), 1) << whole->err();

  const auto batch = cluster().start({"sbatch", "--wait", "--parsable", "--nodes=2", "--output=cancelled.log", "--wrap",
                                      UNISONO_COMMAND " run --grace 3 -- " HOST_RANK " work nothing"});
  ASSERT_TRUE(batch->until_out_has("\n")) << batch->err();
  const std::string log = cluster().folder() + "/cancelled.log";
  ASSERT_TRUE(eventually([&] { return count(contents(log), "working\n") == 2; })) << contents(log);
  EXPECT_EQ(cluster().start({"scancel", lines_of(batch->out()).front()})->wait(), 0);
  EXPECT_NE(batch->wait(), 0) << batch->err();
  // Here Slurm signals the command as well, and each process of a step by itself: a rank may have ended before its launcher knows why.
  const std::string last = lines_of(contents(log)).back();
  EXPECT_TRUE(last.ends_with("the job was cancelled (SIGTERM)") || last.ends_with("ended by SIGTERM") ||
              last.find("SIGTERM: handed on") != std::string::npos)
      << contents(log);

  const auto tasks = cluster().start({"srun", "--nodes=2", "--ntasks-per-node=2", "--job-name=tasks", HOST_RANK, "work", "nothing"});
  ASSERT_TRUE(tasks->until_out_has("working\n", 4)) << tasks->err();
  EXPECT_EQ(cluster().start({"scancel", "--name=tasks"})->wait(), 0);
  EXPECT_NE(tasks->wait(), 0) << tasks->err();
}

}  // namespace
}  // namespace unisono::testing
