// Programs in Python, which need no "python3" in front.

#include "launch/process/python.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "launch/process/program.h"
#include "unisono/error.h"
#include "unit/temporary_file.h"

namespace unisono::launcher {
namespace {

using Words = std::vector<std::string>;
namespace fs = std::filesystem;

/// A folder with a python3 in bin/, and one of programs.
class WithPython : public ::testing::Test {
 protected:
  WithPython() {
    write("path/python3", "#!/bin/sh\n", true);
    write("train.py", "print(1)\n", false);
  }
  std::string write(const std::string& name, const std::string& text, bool may_run) const {
    const fs::path file = folder_.file(name);
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
    fs::permissions(file, may_run ? fs::perms::owner_all : fs::perms::owner_read | fs::perms::owner_write);
    return file.string();
  }
  base::Environment environment(const std::map<std::string, std::string, std::less<>>& more = {}) const {
    std::map<std::string, std::string, std::less<>> variables{{"PATH", folder_.file("path")}};
    variables.insert(more.begin(), more.end());
    return base::Environment(variables);
  }
  Words started(const Words& command) const { return with_python(command, folder_.path(), environment()); }
  std::string in(const std::string& name) const { return folder_.file(name); }

 private:
  TemporaryFolder folder_;
};

TEST_F(WithPython, AFileThatMayNotRunIsStartedByPython) {
  EXPECT_EQ(started({in("train.py"), "-n", "3"}), (Words{"python3", in("train.py"), "-n", "3"}));
  EXPECT_EQ(started({"./train.py"}), (Words{"python3", "./train.py"}));
  EXPECT_EQ(started({"train.py"}), (Words{"python3", "train.py"}));
}

TEST_F(WithPython, AFileThatNamesNoInterpreterIsStartedByPython) {
  const std::string plain = write("plain.py", "print(1)\n", true), program = write("program.py", "#!/usr/bin/env python3\n", true);
  EXPECT_EQ(started({plain}), (Words{"python3", plain}));
  EXPECT_EQ(started({program}), (Words{program}));
}

TEST_F(WithPython, AProgramAlongPathIsStartedAsItIs) {
  write("path/tool.py", "#!/bin/sh\n", true);
  write("tool.py", "print(1)\n", false);
  EXPECT_EQ(started({"tool.py"}), (Words{"tool.py"}));
}

TEST_F(WithPython, WhatIsNoFileOfPythonIsLeftToTheLauncher) {
  write("data", "1\n", false);
  fs::create_directory(in("folder.py"));
  for (const Words& words : {Words{"./data"}, Words{"none.py"}, Words{"./folder.py"}, Words{"app", "train.py"}, Words{}})
    EXPECT_EQ(started(words), words);
}

TEST_F(WithPython, AModuleIsStartedByPython) {
  EXPECT_EQ(started({"-m", "package.train", "-m"}), (Words{"python3", "-m", "package.train", "-m"}));
  EXPECT_THROW(started({"-m"}), InvalidArgument);
}

TEST_F(WithPython, TheActiveEnvironmentComesFirst) {
  const std::string active = write("active/bin/python3", "#!/bin/sh\n", true), around = write("around/bin/python3", "#!/bin/sh\n", true);
  write("around/pyvenv.cfg", "", false);
  const std::string own = in("around/lib/python3.11/site-packages/unisono/libunisono.so");
  EXPECT_EQ(find_python(environment({{"VIRTUAL_ENV", in("active")}}), own), active);
  EXPECT_EQ(find_python(environment({{"VIRTUAL_ENV", in("gone")}}), own), around);
  EXPECT_EQ(find_python(environment(), own), around);
  EXPECT_EQ(find_python(environment(), in("active/lib/libunisono.so")), "python3");  // no virtual environment
}

TEST_F(WithPython, TheProgramIsNamedIfThereIsNoPython) {
  try {
    with_python({"./train.py"}, in(""), base::Environment({{"PATH", in("nowhere")}}));
    FAIL() << "nothing was thrown";
  } catch (const StartFailed& error) {
    EXPECT_EQ(error.exit_code(), exit_not_found);
    EXPECT_EQ(error.message(),
              "cannot run \"./train.py\": it takes Python, and there is no python3 along PATH; name one in front of it (PYTHON ./train.py …)");
  }
}

}  // namespace
}  // namespace unisono::launcher
