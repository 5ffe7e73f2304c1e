// The records that a process finds of others.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <map>
#include <string>

#include "base/environment.h"
#include "base/file_descriptor.h"
#include "recorder/reader.h"
#include "recorder/recorder.h"
#include "unit/temporary_file.h"

namespace unisono::recorder {
namespace {

std::ptrdiff_t found_of(pid_t process) {
  return std::ranges::count_if(find_records(), [&](const auto& reader) { return reader->process() == process; });
}

TEST(FindRecords, TheSearchLooksIntoFilesOfThisUserAlone) {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("any.trace");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const base::FileDescriptor held(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(held);
  const base::FileDescriptor file = make_record_file();
  ASSERT_TRUE(file);
  const pid_t child = ::fork();
  if (child == 0) {
    base::Environment::become(base::Environment(std::map<std::string, std::string, std::less<>>{{record_variable, std::to_string(file.get())}}));
    const auto own = Recorder::make();
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(found_of(child), 1) << "and the open pipe, to which nobody writes, is not read";
  if (::geteuid() != 0) GTEST_SKIP() << "skipped: only root can give a file to another user";
  ASSERT_EQ(::fchown(file.get(), 65534, static_cast<gid_t>(-1)), 0);
  EXPECT_EQ(found_of(child), 0);
}

}  // namespace
}  // namespace unisono::recorder
