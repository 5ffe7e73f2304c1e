// Groups of a program's communicators, and communicators of groups (unisono/mpi.h), with each MPI, each started in both ways.
#include <gtest/gtest.h>

#include "covers.h"
#include "mpi_jobs.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

class MpiCommunicators : public ::testing::TestWithParam<Starter> {
 protected:
  void SetUp() override {
    if (const std::string missing = missing_for(GetParam()); !missing.empty()) GTEST_SKIP() << missing;
  }
  /// All ranks of a job say that they are fine.
  void expect_fine(int ranks, const std::string& mode) {
    const std::string program = kind_of(GetParam()) == "openmpi" ? COMMUNICATOR_OPENMPI : COMMUNICATOR_MPICH;
    const Outcome outcome = run_ranks(GetParam(), ranks, {program, mode, folder_.path()});
    EXPECT_EQ(outcome.fine, ranks) << outcome.out << outcome.err;
    if (mode == "timeout") return;  // MPI is left without MPI_Finalize
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
  bool is_run() const { return GetParam() == Starter::run_openmpi || GetParam() == Starter::run_mpich; }

 private:
  TemporaryFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Each, MpiCommunicators,
                         ::testing::Values(Starter::mpirun_openmpi, Starter::mpirun_mpich, Starter::run_openmpi, Starter::run_mpich),
                         [](const auto& starter) { return name_of(starter.param); });

TEST_P(MpiCommunicators, CommunicatorsBecomeGroupsAndComeBack) {
  for (const int ranks : {1, 2, 3}) {
    SCOPED_TRACE(ranks);
    expect_fine(ranks, "joined");
  }
}

TEST_P(MpiCommunicators, JobIsJoinedIfNoProcessHasJoinedIt) { expect_fine(2, "found"); }

TEST_P(MpiCommunicators, ProcessesOfSeveralJobsAreRefusedOnAllOfThem) {
  if (is_run()) GTEST_SKIP() << "the ranks that unisono starts are one job";
  expect_fine(4, "jobs");
}

TEST_P(MpiCommunicators, ProcessThatDoesNotCallIsATimeout) {
  if (!is_run()) GTEST_SKIP() << "mpirun ends ranks that leave MPI without MPI_Finalize";
  expect_fine(2, "timeout");
}

TEST_P(MpiCommunicators, ProcessWithoutMpiIsRefused) { expect_fine(1, "without_mpi"); }

}  // namespace
}  // namespace unisono::testing
