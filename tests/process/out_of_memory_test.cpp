// `unisono run`: a rank that the kernel has killed because the memory of a real cgroup ran out.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "running_command.h"

namespace unisono::testing {
namespace {

/// A cgroup whose processes have little memory together, of version 1 or 2. Gone with this object.
class LittleMemory {
 public:
  LittleMemory() {
    std::error_code error;
    const std::string name = fmt::format("unisono-test-{}", ::getpid());
    for (const auto& [root, limit] : {std::pair("/sys/fs/cgroup/memory/", "memory.limit_in_bytes"), std::pair("/sys/fs/cgroup/", "memory.max")}) {
      folder_ = root + name;
      if (!std::filesystem::create_directory(folder_, error) || error) continue;
      std::ofstream file(folder_ + "/" + limit);
      if (std::filesystem::exists(folder_ + "/" + limit) && file << (96U << 20) && file.flush()) return;
      std::filesystem::remove(folder_, error);
    }
    folder_.clear();
  }
  ~LittleMemory() {
    // The processes in it are gone, and the kernel may need a moment to see that.
    std::error_code error;
    if (!folder_.empty()) eventually([&] { return std::filesystem::remove(folder_, error) && !error; });
  }
  LittleMemory(const LittleMemory&) = delete;
  LittleMemory& operator=(const LittleMemory&) = delete;
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

TEST(OutOfMemory, LackOfMemoryIsNamedWhenTheKernelKills) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the launcher with AddressSanitizer needs more memory than the ranks are left here";
#endif
  const LittleMemory little;
  if (little.folder().empty()) GTEST_SKIP() << "no cgroup with a limit of memory can be made here";
  // tail keeps the last line of its input, and that of /dev/zero has no end.
  const std::string line = fmt::format(
      "echo $$ > {}/cgroup.procs && exec {} run -n 2 --grace 1 -- /bin/sh -c 'test $RANK = 0 || exec tail /dev/zero; exec cat /dev/zero > /dev/null'",
      little.folder(), UNISONO_COMMAND);
  RunningCommand job({"/bin/sh", "-c", line});
  EXPECT_EQ(job.wait(), 128 + SIGKILL) << job.err();
  EXPECT_EQ(count(job.err(), "ended by SIGKILL (out of memory)\n"), 1) << job.err();
  EXPECT_NE(job.err().find("first cause: rank 1 "), std::string::npos) << job.err();
  EXPECT_NE(unwrapped(job.err()).find("the kernel has killed it: memory ran out"), std::string::npos) << job.err();
}

}  // namespace
}  // namespace unisono::testing
