// What this process has loaded is found and told apart, whatever its files are named.
#include "engines/mpi/loaded.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace unisono::engines::mpi {
namespace {

/// A library of the tests, loaded as long as this object lives.
class Library {
 public:
  explicit Library(const std::string& name, int scope = RTLD_LOCAL) : path_(MPIS_OF_TESTS "/" + name) {
    handle_ = ::dlopen(path_.c_str(), RTLD_NOW | scope);
    if (handle_ == nullptr) ADD_FAILURE() << ::dlerror();
  }
  ~Library() { ::dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  void* handle_ = nullptr;
};

void expect_one(const std::string& file, Abi abi) {
  SCOPED_TRACE(file);
  const Library library(file);
  const auto found = loaded_mpis();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].abi, abi);
  EXPECT_EQ(found[0].path, library.path());
  EXPECT_FALSE(found[0].is_initialized());
}

TEST(LoadedMpis, AProgramWithoutMpiHasNone) { EXPECT_TRUE(loaded_mpis().empty()); }

TEST(LoadedMpis, TheSonameTellsTheAbi) {
  expect_one("openmpi/libmpi.so.40", Abi::openmpi);
  expect_one("mpich/libmpi.so.12", Abi::mpich);
  expect_one("debian/libmpich.so.12", Abi::mpich);
  expect_one("abi0/libmpi_abi.so.0", Abi::standard);
  expect_one("abi1/libmpi_abi.so.1", Abi::standard);
}

TEST(LoadedMpis, ARenamedFileKeepsItsSoname) { expect_one("renamed/libany.so", Abi::standard); }

TEST(LoadedMpis, AnMpiWithoutAPartHasAnUnknownAbi) {
  expect_one("openmpi1/libmpi.so.12", Abi::unknown);  // Open MPI's first series had the soname that is MPICH's now
  expect_one("openmpi20/libmpi.so.20", Abi::unknown);
  expect_one("vendor/libmpi_vendor.so.3", Abi::unknown);
}

TEST(LoadedMpis, OnlyALibraryThatDefinesMpisFunctionsCounts) {
  const Library fortran("openmpi/libmpi_mpifh.so.40");  // linked to libmpi.so.40
  const auto found = loaded_mpis();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(std::filesystem::path(found[0].path).filename(), "libmpi.so.40");
}

TEST(LoadedMpis, TheInitializedOneComesFirst) {
  const Library first("openmpi/libmpi.so.40"), second("initialized/libmpi.so.12");
  const auto found = loaded_mpis();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].path, second.path());
  EXPECT_TRUE(found[0].is_initialized());
  EXPECT_EQ(found[1].path, first.path());
}

TEST(LoadedMpis, ALibraryStaysLoadedWhileItIsLookedAt) {
  auto library = std::make_unique<Library>("mpich/libmpi.so.12");
  auto found = loaded_mpis();
  library.reset();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].is_initialized());
  found.clear();
  EXPECT_TRUE(loaded_mpis().empty()) << "the library is kept loaded";
}

TEST(LoadedMpis, AnMpiOfLocalFunctionsTakesNoOthersPlace) {
  const Library local("mpich/libmpi.so.12"), other("abi1/libmpi_abi.so.1");
  for (const LoadedMpi& mpi : loaded_mpis()) EXPECT_EQ(bound_instead_of(mpi), "");
}

// The dynamic linker never unloads a library of whose global functions one was looked up, so these run in processes of their own.
[[noreturn]] void check_global_functions() {
  const Library local("mpich/libmpi.so.12"), global("abi1/libmpi_abi.so.1", RTLD_GLOBAL);
  const auto found = loaded_mpis();
  bool right = found.size() == 2;
  for (const LoadedMpi& mpi : found) right = right && bound_instead_of(mpi) == (mpi.abi == Abi::mpich ? global.path() : "");
  std::_Exit(right ? 0 : 1);
}

[[noreturn]] void check_another_name() {
  const Library library("wrapped/libwrapped.so", RTLD_GLOBAL);
  const auto found = loaded_mpis();
  std::_Exit(found.size() == 1 && found[0].abi == Abi::unknown && found[0].path == library.path() ? 0 : 1);
}

TEST(LoadedMpis, AnMpiOfGlobalFunctionsTakesTheOthersPlace) { EXPECT_EXIT(check_global_functions(), ::testing::ExitedWithCode(0), ""); }

TEST(LoadedMpis, AnMpiOfAnotherNameIsFoundByItsGlobalFunctions) { EXPECT_EXIT(check_another_name(), ::testing::ExitedWithCode(0), ""); }

}  // namespace
}  // namespace unisono::engines::mpi
