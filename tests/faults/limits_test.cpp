// Limits of the process: what does not fit is an error that names the limit, on all ranks, and ends nobody by a signal.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "faults.h"
#include "unisono/error.h"
#include "unisono/store.h"

namespace unisono::testing {
namespace {

TEST(FileSizes, AJobWhoseSharedMemoryIsTooLargeSaysSoOnAllRanks) {
  RunningCommand job({"/bin/sh", "-c", fmt::format("ulimit -f 10; exec {} run -n 3 -- {} init", UNISONO_COMMAND, FAULT_RANK)});
  EXPECT_EQ(job.wait(), 1) << job.err();
  for (int r = 0; r < 3; ++r) {
    const std::string failed = line_of(lines_of_rank(job, r), "failed: ");
    EXPECT_TRUE(failed.starts_with(r == 0 ? "BackendUnavailable" : "PeerFailed")) << failed;
    EXPECT_NE(failed.find("ulimit -f"), std::string::npos) << failed;
  }
}

TEST(FileSizes, AStoreFileThatMayNotGrowIsAnError) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit little{4096, 4096};
    if (::setrlimit(RLIMIT_FSIZE, &little) != 0) ::_exit(2);
    FileStore store(folder.path() + "/store");
    store.set("fits", std::string(100, 'x'));
    try {
      store.set("does not", std::string(8192, 'x'));
    } catch (const Error& error) {
      if (std::string(error.what()).find("ulimit -f") == std::string::npos) ::_exit(3);
      ::_exit(store.get("fits") == std::string(100, 'x') && !store.try_get("does not") ? 0 : 4);
    }
    ::_exit(5);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "3: another message, 4: the store is damaged, 5: no error";
  FileStore again(folder.path() + "/store");  // as the next process finds it
  EXPECT_EQ(again.get("fits"), std::string(100, 'x'));
}

}  // namespace
}  // namespace unisono::testing
