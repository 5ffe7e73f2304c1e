// What `unisono run --hosts` shows of a start that takes long.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "base/file_descriptor.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

/// A job of two hosts, the second of which does not answer before it may.
class SlowStart {
 public:
  explicit SlowStart(RunningCommand::Options options = {}) {
    const std::string way = folder_.path() + "/way";
    const std::string pipe = folder_.path() + "/pipe";
    EXPECT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    pipe_ = base::FileDescriptor(::open(pipe.c_str(), O_RDWR | O_CLOEXEC));
    std::ofstream(way) << "#!/bin/sh\n[ $1 = two.invalid ] && read word <" << pipe << "\nshift\nexec sh -c \"$*\"\n";
    EXPECT_EQ(::chmod(way.c_str(), 0755), 0);
    job_.emplace(unisono_command({"run", "--hosts", "one.invalid:1,two.invalid:1", "--ssh", way, "--master-addr", "127.0.0.1", "--", "sh", "-c",
                                  "echo has started"}),
                 std::move(options));
  }
  RunningCommand& job() { return *job_; }
  void let_it_answer() const { EXPECT_EQ(::write(pipe_.get(), "\n", 1), 1); }

 private:
  TemporaryFolder folder_;
  base::FileDescriptor pipe_;
  std::optional<RunningCommand> job_;
};

TEST(StartOfHosts, ATerminalShowsWhomAStartWaitsForUntilItHasCome) {
  SlowStart piped, shown(on_terminal({{"NO_COLOR", "1"}}));
  const std::string line = "1 of 2 hosts have answered, two.invalid is waited for";
  EXPECT_TRUE(shown.job().until_out_has(line)) << shown.job().out();
  for (SlowStart* start : {&piped, &shown}) {
    start->let_it_answer();
    EXPECT_EQ(start->job().wait(), 0) << start->job().out() << start->job().err();
    EXPECT_EQ(count(start->job().out(), "has started"), 2) << start->job().out();
  }
  const std::string& out = shown.job().out();
  EXPECT_LT(out.rfind(" hosts have "), out.rfind("\x1b[J")) << "the line is erased: " << out;
  EXPECT_EQ(count(piped.job().out() + piped.job().err(), "waited for"), 0) << piped.job().err();
}

}  // namespace
}  // namespace unisono::testing
