// Backend mpi with each MPI, each started in both ways: the engine by itself, and programs of users.
#include <gtest/gtest.h>

#include <filesystem>

#include "covers.h"
#include "mpi_jobs.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

class Mpi : public ::testing::TestWithParam<Starter> {
 protected:
  void SetUp() override {
    if (const std::string missing = missing_for(GetParam()); !missing.empty()) GTEST_SKIP() << missing;
  }
  Outcome engine(int ranks, const std::string& mode) {
    const std::string place = mode + std::to_string(ranks) + "_" + std::to_string(++engines_);
    return run_ranks(GetParam(), ranks, {ENGINE_RANK, MPI_PLUGIN, path(place), mode});
  }
  Outcome program(int ranks, std::vector<std::string> arguments, std::vector<std::string> variables = {}) {
    arguments.insert(arguments.begin(), kind_of(GetParam()) == "openmpi" ? ADOPTING_OPENMPI : ADOPTING_MPICH);
    return run_ranks(GetParam(), ranks, std::move(arguments), std::move(variables));
  }
  /// Returns what a job says that has to fail.
  static std::string refused(const Outcome& outcome) {
    EXPECT_NE(outcome.code, 0) << outcome.err;
    return outcome.err + outcome.out;
  }
  bool is_run() const { return GetParam() == Starter::run_openmpi || GetParam() == Starter::run_mpich; }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

 private:
  TemporaryFolder folder_;
  int engines_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Each, Mpi, ::testing::Values(Starter::mpirun_openmpi, Starter::mpirun_mpich, Starter::run_openmpi, Starter::run_mpich),
                         [](const auto& starter) { return name_of(starter.param); });

#define EXPECT_ALL_FINE(outcome, ranks)          \
  EXPECT_EQ((outcome).code, 0) << (outcome).err; \
  EXPECT_EQ((outcome).fine, ranks) << (outcome).out << (outcome).err

TEST_P(Mpi, EngineCarriesOutEverythingThatItOffers) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const Outcome outcome = engine(ranks, "crowded");
    EXPECT_ALL_FINE(outcome, ranks);
  }
}

// MPICH spins within MPI, so not more ranks than there are processors.
TEST_P(Mpi, AnEngineThatWaitsWithinMpiIsLeftAlone) {
  const Outcome outcome = engine(2, "engine");
  EXPECT_ALL_FINE(outcome, 2);
}

TEST_P(Mpi, GroupsAreCommunicators) {
  const Outcome outcome = engine(3, "groups");
  EXPECT_ALL_FINE(outcome, 3);
}

TEST_P(Mpi, AbortedEngineThrowsAndTheProcessLives) {
  const Outcome outcome = engine(2, "abort");
  // A rank that ends without MPI_Finalize makes an mpirun end the others, maybe before they have said that they are fine.
  EXPECT_GE(outcome.fine, is_run() ? 2 : 1) << outcome.out << outcome.err;
}

TEST_P(Mpi, CallsThatAreGivenUpWriteIntoNoMemory) {
  const Outcome outcome = engine(2, "given_up");
  EXPECT_GE(outcome.fine, is_run() ? 2 : 1) << outcome.out << outcome.err;
}

TEST_P(Mpi, WhatMpiRefusesIsAnException) {
  const Outcome outcome = engine(2, "truncated");
  EXPECT_ALL_FINE(outcome, 2);
}

TEST_P(Mpi, CallUnderWayWithinMpiEndsTheProcessWithTheReason) {
  const std::string said = refused(engine(2, "stuck"));
  EXPECT_NE(said.find("rank 0 of group world: rank 1 does not come; MPI does not give up"), std::string::npos) << said;
}

TEST_P(Mpi, CarrierSaysRankAndSizeAndBroadcasts) {
  const Outcome outcome = engine(3, "bootstrap");
  EXPECT_ALL_FINE(outcome, 3);
}

TEST_P(Mpi, ProgramOfTheUsersRuns) {
  const Outcome outcome = program(2, {"plain"});
  EXPECT_ALL_FINE(outcome, 2);
}

TEST_P(Mpi, ProgramsOwnMpiIsAdoptedAtEveryLevelOfThreads) {
  COVERS("C-27", "K-45", "B-08", "B-09");
  for (const char* const level : {"multiple", "serialized", "funnelled"}) {
    SCOPED_TRACE(level);
    const Outcome outcome = program(2, {level});
    EXPECT_ALL_FINE(outcome, 2);
  }
}

TEST_P(Mpi, AnotherThreadThanMpisIsRefused) {
  const Outcome outcome = program(2, {"thread"});
  EXPECT_EQ(outcome.fine, 2) << outcome.out << outcome.err;
}

TEST_P(Mpi, SyncJoinsTheProgramsMpi) {
  COVERS("I-01", "C-27");
  const Outcome outcome = program(2, {"sync"});
  EXPECT_ALL_FINE(outcome, 2);
}

TEST_P(Mpi, GettersAndCallsFindTheProgramsMpi) {
  COVERS("I-02");
  const Outcome outcome = program(2, {"getters"});
  EXPECT_ALL_FINE(outcome, 2);
}

TEST_P(Mpi, RanksThatContradictMpisAreRefusedWithBoth) {
  COVERS("K-17", "Q-10", "B-05");
  const std::string by_file = refused(program(2, {"contradict", path("meeting")}));
  EXPECT_NE(by_file.find("rank 0 of the job"), std::string::npos) << by_file;
  EXPECT_NE(by_file.find("is rank 1 of 2 by MPI"), std::string::npos) << by_file;
  const std::string by_argument = refused(program(2, {"contradict"}));
  EXPECT_NE(by_argument.find("by the argument rank, but"), std::string::npos) << by_argument;
}

TEST_P(Mpi, AnMpiOfTheOtherKindIsUnavailable) {
  const std::string other = kind_of(GetParam()) == "openmpi" ? "mpich" : "openmpi";
  if (is_run()) {
    // The launcher serves the kind that the variable names, and the program is linked to the other one.
    TemporaryFolder folder;
    std::vector<std::string> words = {"/usr/bin/env", "UNISONO_MPI=" + other};
    const std::string linked = kind_of(GetParam()) == "openmpi" ? ADOPTING_OPENMPI : ADOPTING_MPICH;
    for (const auto& word : unisono_command({"run", "--backend", "mpi", "--", linked, "plain"})) words.push_back(word);
    RunningCommand command(words);
    EXPECT_EQ(command.wait(), 4);
    EXPECT_NE(command.err().find("an MPI of the other kind"), std::string::npos) << command.err();
    return;
  }
  const Outcome outcome = program(1, {"plain"}, {"UNISONO_MPI=" + other});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_NE((outcome.err + outcome.out).find("an MPI of the other kind"), std::string::npos) << outcome.err;
  const Outcome unknown = program(1, {"plain"}, {"UNISONO_MPI=lam"});
  EXPECT_EQ(unknown.code, 4);
  EXPECT_NE((unknown.err + unknown.out).find("UNISONO_MPI is \"lam\"; it is openmpi or mpich"), std::string::npos) << unknown.err;
}

TEST_P(Mpi, DigitsAreLearnt) {
  const Outcome outcome = run_ranks(GetParam(), 4, {DIGITS}, is_run() ? std::vector<std::string>{} : std::vector<std::string>{"UNISONO_BACKEND=mpi"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("confirmed by 4 of 4 ranks"), std::string::npos) << outcome.out;
  const std::size_t accuracy = outcome.out.find("test accuracy: ");
  ASSERT_NE(accuracy, std::string::npos) << outcome.out;
  EXPECT_GE(std::stod(outcome.out.substr(accuracy + 15)), 0.95);
}

// On the native engine, mpirun says no more than who the ranks are; they meet all the same.
TEST_P(Mpi, RanksOfMpirunMeetWithoutAnAddress) {
  if (is_run()) GTEST_SKIP() << "under unisono run they meet through the launcher";
  const Outcome outcome = run_ranks(GetParam(), 3, {DIGITS});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("confirmed by 3 of 3 ranks"), std::string::npos) << outcome.out;
}

TEST(MpiKinds, RanksOfNoLauncherAreTold) {
  if (missing_for(Starter::run_mpich) != "") GTEST_SKIP() << missing_for(Starter::run_mpich);
  TemporaryFolder folder;
  std::vector<std::string> words = {"/usr/bin/env", "UNISONO_BACKEND=native"};
  for (const auto& word : unisono_command({"run", "-n", "2", "--grace", "2", "--", ADOPTING_MPICH, "plain"})) words.push_back(word);
  RunningCommand command(words);
  EXPECT_NE(command.wait(), 0);
  EXPECT_NE(command.err().find("BackendUnavailable"), std::string::npos) << command.err();
  EXPECT_NE(command.err().find("was not started by an MPI launcher"), std::string::npos) << command.err();
}

}  // namespace
}  // namespace unisono::testing
