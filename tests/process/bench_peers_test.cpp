// `unisono bench --peers FOLDER`: an MPI that lies in a folder is measured like the system's own, and any other folder is refused in a sentence.

#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "running_command.h"

namespace unisono::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A prefix as an MPI is installed into.
class Prefix {
 public:
  explicit Prefix(const std::string& below = "") : path_(folder_.path() + below) {
    fs::create_directories(path_ + "/lib");
    fs::create_directories(path_ + "/bin");
  }
  std::string path() const { return folder_.path(); }
  std::string library(const std::string& name) const { return path_ + "/lib/" + name; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(library(name)) << text; }
  void link(const std::string& name, const std::string& to) const { fs::create_symlink(to, library(name)); }
  /// Makes a launcher that is another program.
  void launch_by(const std::string& program) const {
    std::ofstream(path_ + "/bin/mpiexec") << "#!/bin/sh\nexec " << program << " \"$@\"\n";
    fs::permissions(path_ + "/bin/mpiexec", fs::perms::owner_all);
  }

 private:
  TemporaryFolder folder_;
  std::string path_;
};

/// The head of a library's file, which has no more.
std::string library_for(unsigned machine) {
  std::array<unsigned char, 64> head = {};
  std::ifstream("/proc/self/exe", std::ios::binary).read(reinterpret_cast<char*>(head.data()), head.size());
  head[offsetof(Elf64_Ehdr, e_machine)] = static_cast<unsigned char>(machine);
  head[offsetof(Elf64_Ehdr, e_machine) + 1] = 0;
  return {head.begin(), head.end()};
}
unsigned own_machine() {
  std::array<unsigned char, 64> head = {};
  std::ifstream("/proc/self/exe", std::ios::binary).read(reinterpret_cast<char*>(head.data()), head.size());
  return head[offsetof(Elf64_Ehdr, e_machine)];
}

struct Said {
  int code;
  std::string err;
};
Said bench(const std::vector<std::string>& peers) {
  std::vector<std::string> words = {"bench", "all_reduce", "-n", "2", "--sizes", "8", "--quick", "--peers"};
  words.insert(words.end(), peers.begin(), peers.end());
  RunningCommand command(unisono_command(words));
  const int code = command.wait(std::chrono::seconds(100));
  EXPECT_EQ(command.out(), "");
  return {.code = code, .err = unwrapped(command.err())};
}

#define EXPECT_REFUSED(said, text)         \
  EXPECT_EQ((said).code, 2) << (said).err; \
  EXPECT_TRUE((said).err.starts_with("unisono bench: " + (text))) << (said).err

TEST(BenchFolder, AFolderWithoutAnMpiIsRefused) {
  const Prefix prefix;
  EXPECT_REFUSED(bench({prefix.path() + "/absent"}), prefix.path() + "/absent is not a folder");
  EXPECT_REFUSED(bench({prefix.path()}), "there is no MPI in " + prefix.path());
  prefix.link("libmpi.so.40", "/nowhere/at/all");
  EXPECT_REFUSED(bench({prefix.path()}), "there is no MPI in " + prefix.path());
}

TEST(BenchFolder, AFolderWithTwoMpisIsRefused) {
  const Prefix prefix;
  prefix.write("libmpi.so.40", "one");
  prefix.write("libmpi.so.12", "another");
  EXPECT_REFUSED(bench({prefix.path()}),
                 "there are two MPIs in " + prefix.path() + ": " + prefix.library("libmpi.so.40") + " and " + prefix.library("libmpi.so.12"));
}

TEST(BenchFolder, AnMpiForOtherProcessorsIsRefused) {
  const Prefix prefix;
  prefix.write("libmpi_abi.so.1", library_for(EM_PPC64));
  EXPECT_REFUSED(bench({prefix.path()}), "the MPI in " + prefix.path() + " is for POWER (64 bits, little endian), and unisono is for ");
  prefix.write("libmpi_abi.so.1", "INPUT(libmpi.a)");
  EXPECT_REFUSED(bench({prefix.path()}), "the MPI in " + prefix.path() + " is not a library: " + prefix.library("libmpi_abi.so.1"));
}

TEST(BenchFolder, AnMpiWithoutALauncherIsRefused) {
  const Prefix prefix("/any-1.data/data");  // a wheel that was unpacked
  prefix.write("libmpi.so.12", library_for(own_machine()));
  EXPECT_REFUSED(bench({prefix.path()}),
                 "the MPI in " + prefix.path() + " has no launcher: there is no " + prefix.path() + "/any-1.data/data/bin/mpiexec");
}

TEST(BenchFolder, AnMpiThatCannotBeLoadedIsRefused) {
  const Prefix prefix;
  prefix.write("libmpi.so.12", library_for(own_machine()));
  prefix.launch_by("/bin/false");
  const Said said = bench({prefix.path()});
  EXPECT_EQ(said.code, 1);
  EXPECT_TRUE(said.err.starts_with("unisono bench: the MPI in " + prefix.path() + " cannot be measured: the MPI cannot be loaded: ")) << said.err;
}

TEST(BenchFolder, AFolderIsNoOperation) {
  RunningCommand command(unisono_command({"bench", "./openmpi-5"}));
  EXPECT_EQ(command.wait(), 2);
  EXPECT_TRUE(unwrapped(command.err()).starts_with("unisono bench: './openmpi-5' is not an operation; did you mean '--peers ./openmpi-5'?\n"))
      << command.err();
}

/// The system's MPIs that this build has, as prefixes with the names of their libraries.
class BenchFolderOfTheSystems : public ::testing::Test {
 protected:
  struct Mpi {
    std::string name, library, launcher, version;
  };
  void SetUp() override {
    const std::map<std::string, Mpi> known = {{"libmpi.so.40", {"openmpi", OPENMPI_LIBRARY, OPENMPI_RUN, "Open MPI v"}},
                                              {"libmpi.so.12", {"mpich", MPICH_LIBRARY, MPICH_RUN, "MPICH Version: "}}};
    for (const auto& [soname, mpi] : known) {
      if (mpi.library.empty() || mpi.launcher.empty()) continue;
      auto prefix = std::make_unique<Prefix>();
      prefix->link(soname, mpi.library);
      prefix->launch_by(mpi.launcher);
      mpis_.emplace_back(mpi, std::move(prefix));
    }
    if (mpis_.empty()) GTEST_SKIP() << "neither Open MPI nor MPICH was found when this was built (packages libopenmpi-dev, libmpich-dev)";
  }
  std::vector<std::pair<Mpi, std::unique_ptr<Prefix>>> mpis_;
};

TEST_F(BenchFolderOfTheSystems, FoldersAndNamesAreMeasuredInOneRun) {
  const TemporaryFolder folder;
  std::vector<std::string> words = {"bench",  "all_reduce", "-n", "2", "--sizes", "8,64KiB", "--quick", "--json", folder.path() + "/results.json",
                                    "--peers"};
  words.push_back(mpis_.front().first.name);
  for (const auto& [mpi, prefix] : mpis_) words.push_back(prefix->path() + "/");
  RunningCommand command(unisono_command(words));
  ASSERT_EQ(command.wait(std::chrono::seconds(100)), 0) << command.err();
  const json rows = json::parse(contents(folder.path() + "/results.json"), nullptr, false);
  std::map<std::string, int> results;
  for (const json& row : rows) {
    const std::string impl = row.at("impl");
    EXPECT_TRUE(std::set<std::string>({"near", "between", "distant", "shared"}).contains(row.at("cores"))) << row;
    EXPECT_GT(row.at("flag_ns"), 0);
    EXPECT_EQ(row.at("buffers"), "private");
    if (impl == "unisono" || impl == "roofline") continue;
    ++results[impl];
    EXPECT_EQ(row.at("set"), impl);
    EXPECT_TRUE(row.contains("ratio"));
    const auto is_of_it = [&](const auto& each) { return impl.starts_with(each.first.name); };
    EXPECT_TRUE(row.at("version").get<std::string>().starts_with(std::ranges::find_if(mpis_, is_of_it)->first.version)) << row;
  }
  EXPECT_EQ(results.size(), mpis_.size() + 1) << rows;
  for (const auto& [impl, count] : results) EXPECT_EQ(count, 2) << impl;
  EXPECT_TRUE(results.contains(mpis_.front().first.name));
  for (const auto& [mpi, prefix] : mpis_) EXPECT_TRUE(results.contains(mpi.name + "-4") || results.contains(mpi.name + "-5")) << mpi.name;
}

TEST_F(BenchFolderOfTheSystems, TwoFoldersOfOneVersionAreRefused) {
  const std::string path = mpis_.front().second->path();
  EXPECT_REFUSED(bench({path, path + "/."}), "two peers are " + mpis_.front().first.name + "-");
}

/// The MPIs of PyPI, where scripts/get/mpi4py has put them.
class BenchFolderOfPypi : public ::testing::TestWithParam<std::pair<std::string, std::string>> {
 protected:
  void SetUp() override {
    if (!fs::exists(path() + "/complete")) GTEST_SKIP() << "there is no " << path() << " (scripts/get/mpi4py puts it there)";
  }
  static std::string path() { return PYPI_MPIS "/" + GetParam().first; }
  /// Measures every operation, and returns the versions of the peer.
  static std::set<std::string> measure(const std::string& prefix) {
    const TemporaryFolder folder;
    const std::string file = folder.path() + "/results.json";
    RunningCommand command(
        unisono_command({"bench", "all", "-n", "2", "--sizes", "8,2MiB", "--quick", "--rounds", "1", "--json", file, "--peers", prefix}),
        {.environment = {{"I_MPI_FABRICS", "shm"}}});
    EXPECT_EQ(command.wait(std::chrono::seconds(300)), 0) << command.err();
    std::set<std::string> missing, versions;
    const json rows = json::parse(contents(file), nullptr, false);
    for (const json& row : rows) missing.insert(row.at("op").get<std::string>());
    for (const json& row : rows) {
      if (!row.at("impl").get<std::string>().starts_with(GetParam().second)) continue;
      missing.erase(row.at("op"));
      versions.insert(row.at("version"));
    }
    EXPECT_EQ(missing, std::set<std::string>());
    return versions;
  }
};

TEST_P(BenchFolderOfPypi, AnMpiFromPypiHasEveryOperation) { EXPECT_EQ(measure(path()).size(), 1U); }

TEST_P(BenchFolderOfPypi, AnMpiIsMeasuredByTheStandardAbiAlone) {
  if (!fs::exists(path() + "/lib/libmpi_abi.so.1")) GTEST_SKIP() << GetParam().first << " has no libmpi_abi.so.1";
  const Prefix prefix;
  prefix.link("libmpi_abi.so.1", path() + "/lib/libmpi_abi.so.1");
  prefix.launch_by(path() + "/bin/mpiexec");
  EXPECT_EQ(measure(prefix.path()).size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Fetched, BenchFolderOfPypi,
                         ::testing::Values(std::pair("openmpi", "openmpi-5"), std::pair("mpich", "mpich-5"), std::pair("impi-rt", "impi-2021")),
                         [](const auto& about) { return about.param.first == "impi-rt" ? "impi" : about.param.first; });

}  // namespace
}  // namespace unisono::testing
