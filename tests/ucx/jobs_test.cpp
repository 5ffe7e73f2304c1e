#include <gtest/gtest.h>

#include "running_command.h"

// Whole jobs: which engine `auto` takes between hosts, and what a machine without UCX is told.

namespace unisono::testing {
namespace {

using Variables = std::map<std::string, std::string>;

/// A small test of the conformance suite on three ranks of two hosts.
std::vector<std::string> job(const std::vector<std::string>& flags = {}) {
  std::vector<std::string> words{"run", "-n", "3", "--grace", "1"};
  words.insert(words.end(), flags.begin(), flags.end());
  for (const char* const word : {"--", "env", "-u", "LOCAL_RANK", "-u", "LOCAL_WORLD_SIZE", CONFORMANCE, "--gtest_filter=*Barrier*"})
    words.emplace_back(word);
  return unisono_command(words);
}

Variables on_two_hosts(Variables more) {
  more.insert({{"CONFORMANCE_HOSTS", "a,a,b"}, {"UNISONO_TIMEOUT", "60"}, {"UNISONO_LOG", "debug"}});
  return more;
}

// The plug-in is part of every build that has UCX's headers, and may run where the library is missing.
TEST(Library, AMissingLibraryIsToldWithWhatToInstall) {
  RunningCommand running(
      job({"--backend", "ucx"}),
      {.environment = on_two_hosts({{"UNISONO_PLUGIN_PATH", OUR_PLUGINS}, {"UNISONO_UCX_LIBRARY", "/usr/lib/no-such/libucp.so.0"}})});
  EXPECT_NE(running.wait(), 0);
  const std::string said = running.out() + running.err();
  EXPECT_GE(count(said, "backend ucx cannot be used: there is no UCX library (/usr/lib/no-such/libucp.so.0: cannot open"), 1) << said;
  EXPECT_GE(count(said, "libucx0"), 1) << said;
}

TEST(Library, TheLibraryIsNamedByAnAbsolutePath) {
  RunningCommand running(unisono_command({"info"}), {.environment = {{"UNISONO_PLUGIN_PATH", OUR_PLUGINS}, {"UNISONO_UCX_LIBRARY", "libucp.so.0"}}});
  EXPECT_EQ(running.wait(), 0);
  EXPECT_NE(unwrapped(running.out()).find("UNISONO_UCX_LIBRARY=libucp.so.0 is not an absolute path"), std::string::npos) << running.out();
}

}  // namespace
}  // namespace unisono::testing
