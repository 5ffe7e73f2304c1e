// Code that was not linked is run only from trusted places: plug-ins, helpers, libraries that a variable names.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "base/code_file.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

namespace fs = std::filesystem;

constexpr uid_t stranger = 54321;

void allow(const fs::path& path, mode_t mode) { ASSERT_EQ(::chmod(path.c_str(), mode), 0) << path; }

class CodeFile : public ::testing::Test {
 protected:
  CodeFile() : outer(folder_.path()), inner(outer / "inner"), file(inner / "libcode.so") {
    fs::create_directory(inner);
    std::ofstream(file) << "code";
    for (const fs::path& each : {outer, inner}) allow(each, 0755);
    allow(file, 0755);
  }
  void expect_danger(const fs::path& path, const std::string& what) const {
    EXPECT_NE(base::why_not_to_run(path).find(what), std::string::npos) << path << ": " << base::why_not_to_run(path);
  }
  TemporaryFolder folder_;
  const fs::path outer, inner, file;
};

TEST_F(CodeFile, CodeOfNobodyElseMayRun) {
  EXPECT_EQ(base::why_not_to_run(file), "");
  EXPECT_EQ(base::why_not_to_run(inner / "nothing.so"), "");
  EXPECT_EQ(base::why_not_to_run("/bin/sh"), "");
  allow(outer, 01777);  // as /tmp: others cannot take away what is in it
  EXPECT_EQ(base::why_not_to_run(file), "");
}

TEST_F(CodeFile, CodeThatAnybodyCanChangeMayNotRun) {
  allow(file, 0757);
  expect_danger(file, "anybody can write to " + file.string());
}

TEST_F(CodeFile, CodeInAFolderToWhichAnybodyCanAddMayNotRun) {
  for (const mode_t mode : {0777, 01777}) {
    allow(inner, mode);
    expect_danger(file, "anybody can write to " + inner.string());
  }
}

TEST_F(CodeFile, CodeWhoseFolderAnybodyCanReplaceMayNotRun) {
  allow(outer, 0777);
  expect_danger(file, "anybody can write to " + outer.string());
}

TEST_F(CodeFile, CodeThatALinkOfAnybodysNamesMayNotRun) {
  const fs::path open = outer / "open";
  fs::create_directory(open);
  fs::create_symlink(file, open / "libcode.so");
  allow(open, 0755);
  EXPECT_EQ(base::why_not_to_run(open / "libcode.so"), "");
  allow(open, 0777);
  expect_danger(open / "libcode.so", "anybody can write to " + open.string());
}

TEST_F(CodeFile, CodeOfAnotherUserMayNotRun) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root gives files away";
  ASSERT_EQ(::chown(file.c_str(), stranger, 0), 0);
  expect_danger(file, fmt::format("{} belongs to user {}", file.string(), stranger));
  ASSERT_EQ(::chown(file.c_str(), 0, 0), 0);
  ASSERT_EQ(::chown(inner.c_str(), stranger, 0), 0);
  expect_danger(file, fmt::format("{} belongs to user {}", inner.string(), stranger));
  ASSERT_EQ(::chown(inner.c_str(), 0, stranger), 0);
  EXPECT_EQ(base::why_not_to_run(file), "");
  allow(inner, 0775);
  expect_danger(file, fmt::format("group {} can write to {}", stranger, inner.string()));
}

/// An installed command in bin/, and a lib/ beside it that holds what calls itself plug-ins.
class Prefix : public ::testing::Test {
 protected:
  Prefix() : root(folder_.path()), command(root / "bin" / "unisono"), lib(root / "lib"), mark(root / "marks" / "ran") {
    allow(root, 0755);
    for (const char* name : {"bin", "lib", "marks"}) fs::create_directory(root / name);
    allow(root / "marks", 0777);
    fs::copy_file(UNISONO_COMMAND, command);
    put("gloo");
  }
  void put(const std::string& name) const { fs::copy_file(UNTRUSTED_PLUGIN, lib / ("libunisono_" + name + ".so")); }
  /// The output of `unisono info`, from the folder of the prefix.
  std::string info(const std::string& plugin_path = {}) const {
    RunningCommand running({"/bin/sh", "-c", fmt::format("cd {} && exec bin/unisono info", root.string())},
                           {.environment = {{"UNTRUSTED_MARK", mark.string()}, {"UNISONO_PLUGIN_PATH", plugin_path}}});
    EXPECT_EQ(running.wait(), 0) << running.err();
    return unwrapped(running.out());
  }
  bool ran() const {
    std::error_code ignored;
    return fs::remove(mark, ignored);
  }
  TemporaryFolder folder_;
  const fs::path root, command, lib, mark;
};

TEST_F(Prefix, ItsPlugInsAreLoaded) {
  const std::string said = info();
  EXPECT_TRUE(ran());
  EXPECT_NE(said.find("libunisono_gloo.so has no unisono_plugin()"), std::string::npos) << said;
}

TEST_F(Prefix, ItsPlugInsMayLieInAFolderOfTheirOwn) {
  fs::create_directory(lib / "unisono");
  fs::rename(lib / "libunisono_gloo.so", lib / "unisono" / "libunisono_gloo.so");
  fs::copy_file(UNTRUSTED_PLUGIN, lib / "unisono" / "libunisono_warp.so");  // of ours there is none of this name
  const std::string said = info();
  EXPECT_TRUE(ran());
  EXPECT_NE(said.find("libunisono_gloo.so has no unisono_plugin()"), std::string::npos) << said;
  EXPECT_EQ(said.find("warp"), std::string::npos) << said;
}

TEST_F(Prefix, NoPlugInIsLoadedWhereAnybodyCanAddOne) {
  allow(lib, 01777);
  const std::string said = info();
  EXPECT_FALSE(ran());
  EXPECT_NE(said.find("is not loaded: anybody can write to"), std::string::npos) << said;
}

TEST_F(Prefix, NoPlugInIsLoadedWhereAStrangerMadeTheFolder) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root gives files away";
  ASSERT_EQ(::chown(lib.c_str(), stranger, 0), 0);
  info();
  EXPECT_FALSE(ran());
}

TEST_F(Prefix, OtherLibrariesThatLieThereAreNotOpened) {
  fs::remove(lib / "libunisono_gloo.so");
  for (const char* name : {"torch", "warp"}) put(name);
  const std::string said = info();
  EXPECT_FALSE(ran());
  EXPECT_EQ(said.find("warp"), std::string::npos) << said;
  EXPECT_EQ(said.find("libunisono_torch"), std::string::npos) << said;
  // A user who wants it says where it lies.
  const std::string with_path = info(lib.string());
  EXPECT_TRUE(ran());
  EXPECT_NE(with_path.find("libunisono_warp.so has no unisono_plugin()"), std::string::npos) << with_path;
  EXPECT_EQ(with_path.find("libunisono_torch"), std::string::npos) << with_path;
}

TEST_F(Prefix, ARelativePluginPathIsNotSearched) {
  fs::remove(lib / "libunisono_gloo.so");
  put("warp");
  const std::string said = info("lib");
  EXPECT_FALSE(ran());
  EXPECT_NE(said.find("UNISONO_PLUGIN_PATH: lib is not an absolute path"), std::string::npos) << said;
}

TEST_F(Prefix, APluginPathThatAnybodyCanWriteToIsNotLoadedFrom) {
  fs::remove(lib / "libunisono_gloo.so");
  put("warp");
  allow(lib, 0777);
  const std::string said = info(lib.string());
  EXPECT_FALSE(ran());
  EXPECT_NE(said.find("is not loaded: anybody can write to"), std::string::npos) << said;
}

TEST_F(Prefix, ASetUserIdProgramTakesNoCodeFromTheEnvironment) {
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root makes a program another user's";
  fs::remove(lib / "libunisono_gloo.so");
  put("warp");
  ASSERT_EQ(::chown(command.c_str(), stranger, 0), 0);
  info(lib.string());
  EXPECT_TRUE(ran());
  allow(command, 04755);
  EXPECT_NE(unwrapped(info(lib.string())).find("UNISONO_PLUGIN_PATH is ignored in a program that runs with others' rights"), std::string::npos);
  EXPECT_FALSE(ran());
}

TEST_F(Prefix, AHelperThatAStrangerPutThereIsNotPreloaded) {
  fs::create_directories(root / "libexec" / "unisono");
  fs::copy_file(UNTRUSTED_PLUGIN, root / "libexec" / "unisono" / "libunisono-lines.so");
  const auto run = [&] {
    RunningCommand running({command.string(), "run", "-n", "1", "/bin/true"}, {.environment = {{"UNTRUSTED_MARK", mark.string()}}});
    EXPECT_EQ(running.wait(), 0) << running.err();
    return running.err();
  };
  run();
  EXPECT_TRUE(ran());
  allow(root / "libexec" / "unisono", 01777);
  const std::string said = run();
  EXPECT_FALSE(ran());
  EXPECT_NE(said.find("is not used: anybody can write to"), std::string::npos) << said;
}

TEST_F(Prefix, AVendorsLibraryIsNamedInFullAndNobodyElses) {
  if (!fs::exists(NCCL_PLUGIN)) GTEST_SKIP() << "skipped: this build has no plug-in nccl";
  fs::remove(lib / "libunisono_gloo.so");
  fs::copy_file(UNTRUSTED_PLUGIN, lib / "libnccl.so.2");
  const auto info_with = [&](const std::string& library) {
    RunningCommand running({"/bin/sh", "-c", fmt::format("cd {} && exec {} info", lib.string(), UNISONO_COMMAND)},
                           {.environment = {{"UNTRUSTED_MARK", mark.string()}, {"UNISONO_NCCL_LIBRARY", library}}});
    EXPECT_EQ(running.wait(), 0) << running.err();
    return unwrapped(running.out());
  };
  info_with((lib / "libnccl.so.2").string());
  EXPECT_TRUE(ran());
  std::string said = info_with("./libnccl.so.2");
  EXPECT_FALSE(ran());
  EXPECT_NE(said.find("UNISONO_NCCL_LIBRARY=./libnccl.so.2 is not an absolute path"), std::string::npos) << said;
  allow(lib, 0777);
  said = info_with((lib / "libnccl.so.2").string());
  EXPECT_FALSE(ran());
  EXPECT_NE(said.find("is not loaded: anybody can write to"), std::string::npos) << said;
}

}  // namespace
}  // namespace unisono::testing
