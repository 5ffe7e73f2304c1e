// An MPI that the program has loaded is used, or left alone: never is another one opened beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "mpi_jobs.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

const std::string standard_abi = MPIS_OF_TESTS "/abi1/libmpi_abi.so.1";

/// MPICH as it is found here, under the soname that its own builds and Intel's have.
class RenamedMpich {
 public:
  RenamedMpich() {
    const std::string soname("libmpich.so.12\0", 15), other("libmpi.so.12\0\0\0", 15);
    std::filesystem::copy_file(MPICH_LIBRARY, path());
    const auto size = static_cast<std::size_t>(std::filesystem::file_size(path()));
    std::string library(size, '\0');
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.read(library.data(), static_cast<std::streamsize>(size));
    for (auto at = library.find(soname); at != std::string::npos; at = library.find(soname, at + 1)) {
      file.seekp(static_cast<std::streamoff>(at));
      file.write(other.data(), static_cast<std::streamsize>(other.size()));
    }
  }
  std::string path() const { return folder_.path() + "/libmpi.so.12"; }
  /// The variable by which programs that are linked to the soname find it.
  std::string variable() const { return "LD_LIBRARY_PATH=" + folder_.path(); }

 private:
  TemporaryFolder folder_;
};

std::vector<std::string> loaded_in(const Outcome& outcome) {
  std::vector<std::string> paths;
  for (const std::string& line : lines_of(outcome.out)) {
    if (line.starts_with("loaded ")) paths.push_back(line.substr(7));
  }
  std::ranges::sort(paths);
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

Outcome alone(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"/usr/bin/env", "UNISONO_TIMEOUT=60", BESIDE_RANK};
  words.insert(words.end(), arguments.begin(), arguments.end());
  RunningCommand command(words);
  Outcome outcome;
  outcome.code = command.wait();
  outcome.out = command.out();
  outcome.err = command.err();
  return outcome;
}

Outcome of_mpich(std::vector<std::string> arguments, const std::vector<std::string>& variables = {}) {
  arguments.insert(arguments.begin(), BESIDE_RANK);
  return run_ranks(Starter::mpirun_mpich, 2, arguments, variables);
}

using Paths = std::vector<std::string>;

#define EXPECT_FINE(outcome, size)               \
  EXPECT_EQ((outcome).code, 0) << (outcome).err; \
  EXPECT_EQ(count((outcome).out, "fine of " #size), size) << (outcome).out << (outcome).err

#define EXPECT_REFUSED(outcome, text)                                                        \
  EXPECT_NE((outcome).code, 0);                                                              \
  EXPECT_NE((outcome).err.find("BackendUnavailable: "), std::string::npos) << (outcome).err; \
  EXPECT_NE((outcome).err.find(text), std::string::npos) << (outcome).err

TEST(BesideMpi, BackendMpiIsUnavailableBesideAnMpiWithoutAPart) {
  for (const std::string file : {"abi0/libmpi_abi.so.0", "abi1/libmpi_abi.so.1", "openmpi1/libmpi.so.12", "openmpi20/libmpi.so.20"}) {
    const std::string path = MPIS_OF_TESTS "/" + file;
    const Outcome outcome = alone({"mpi", path});
    EXPECT_REFUSED(outcome, "the program has loaded " + path);
    EXPECT_EQ(loaded_in(outcome), Paths{path});
  }
}

TEST(BesideMpi, OtherBackendsWorkBesideAnyMpiAndOpenNone) {
  for (const std::string backend : {"native", "tcp"}) {
    const Outcome outcome = alone({backend, standard_abi});
    EXPECT_FINE(outcome, 1);
    EXPECT_EQ(loaded_in(outcome), Paths{standard_abi});
  }
}

class BesideMpich : public ::testing::Test {
 protected:
  static const RenamedMpich& renamed() {
    static const RenamedMpich mpich;
    return mpich;
  }
  void SetUp() override {
    if (const std::string missing = missing_for(Starter::mpirun_mpich); !missing.empty()) GTEST_SKIP() << missing;
  }
};

TEST_F(BesideMpich, RanksOfItsLauncherMeetWithoutAnyMpi) {
  const Outcome outcome = of_mpich({"native"});
  EXPECT_FINE(outcome, 2);
  EXPECT_EQ(loaded_in(outcome), Paths{});
}

TEST_F(BesideMpich, RanksThatHaveAnMpiWithoutAPartMeetAndOpenNone) {
  const Outcome outcome = of_mpich({"native", standard_abi});
  EXPECT_FINE(outcome, 2);
  EXPECT_EQ(loaded_in(outcome), Paths{standard_abi});
}

// Where the launcher does not say that they are on one host, they need MPI to meet.
TEST_F(BesideMpich, RanksThatCannotMeetAreToldWhichMpiIsInTheWay) {
  std::vector<std::string> program{"/usr/bin/env", "-u", "MPI_LOCALNRANKS", BESIDE_RANK, "native", standard_abi};
  const Outcome outcome = run_ranks(Starter::mpirun_mpich, 2, program);
  EXPECT_REFUSED(outcome, "cannot meet through MPI: the program has loaded " + standard_abi);
  EXPECT_NE(outcome.err.find("set MASTER_ADDR and MASTER_PORT"), std::string::npos) << outcome.err;
  EXPECT_EQ(loaded_in(outcome), Paths{standard_abi});
}

TEST_F(BesideMpich, LibraryOfAnotherNameIsUsed) {
  const RenamedMpich& mpich = renamed();
  const Outcome one = alone({"mpi", mpich.path()});
  EXPECT_FINE(one, 1);
  EXPECT_EQ(loaded_in(one), Paths{mpich.path()});
  for (const std::string backend : {"mpi", "native"}) {
    const Outcome two = of_mpich({backend, mpich.path()});
    EXPECT_FINE(two, 2);
    EXPECT_EQ(loaded_in(two), Paths{mpich.path()});
  }
}

TEST_F(BesideMpich, RanksOnSeveralHostsMeetThroughTheLibraryOfAnotherName) {
  const RenamedMpich& mpich = renamed();
  const Outcome outcome = run_ranks(Starter::mpirun_mpich, 2, {"/usr/bin/env", "-u", "MPI_LOCALNRANKS", BESIDE_RANK, "native", mpich.path()});
  EXPECT_FINE(outcome, 2);
  EXPECT_EQ(loaded_in(outcome), Paths{mpich.path()});
}

TEST_F(BesideMpich, ProgramLinkedToLibmpi12IsAdopted) {
  const RenamedMpich& mpich = renamed();
  for (const std::string mode : {"plain", "multiple", "sync", "getters"}) {
    SCOPED_TRACE(mode);
    const Outcome outcome = run_ranks(Starter::mpirun_mpich, 2, {ADOPTING_LIBMPI12, mode}, {mpich.variable()});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.fine, 2) << outcome.out << outcome.err;
  }
}

TEST_F(BesideMpich, ProgramWithTwoMpisIsToldBoth) {
  const RenamedMpich& mpich = renamed();
  // What is preloaded is global, and the other library is the program's as well.
  RunningCommand command({"/usr/bin/env", "LD_PRELOAD=" + standard_abi, BESIDE_RANK, "mpi", mpich.path()});
  EXPECT_EQ(command.wait(), 4);
  EXPECT_NE(command.err().find("the program has loaded " + standard_abi), std::string::npos) << command.err();
  RunningCommand initialized({"/usr/bin/env", "LD_PRELOAD=" + standard_abi, BESIDE_RANK, "mpi", MPIS_OF_TESTS "/initialized/libmpi.so.12"});
  EXPECT_EQ(initialized.wait(), 4);
  EXPECT_NE(initialized.err().find("/initialized/libmpi.so.12 (MPICH) and " + standard_abi + ": two MPIs"), std::string::npos) << initialized.err();
}

}  // namespace
}  // namespace unisono::testing
