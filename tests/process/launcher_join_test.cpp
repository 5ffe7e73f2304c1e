// How programs find the launcher that has started them, or a program around them.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "base/host.h"
#include "rendezvous/launcher_store.h"
#include "running_command.h"
#include "store/client.h"
#include "unisono/error.h"

namespace unisono::testing {
namespace {

/// A rank that is a script around the helper, which is "$0" there.
std::vector<std::string> run_script(const std::string& ranks, const std::string& script) {
  return unisono_command({"run", "-n", ranks, "--stdin", "none", "--", "bash", "-c", script, RANK_HELPER});
}

TEST(RanksLauncher, TheLauncherIsFoundByProgramsWhoseParentHasClosedTheDescriptors) {
  for (const char* script : {"eval \"exec $UNISONO_LAUNCHER_FD>&-\"; \"$0\" meet",            // as Python's subprocess does
                             "eval \"exec $UNISONO_LAUNCHER_FD</dev/null\"; \"$0\" meet"}) {  // and another file has got the number
    RunningCommand job(run_script("2", script));
    EXPECT_EQ(job.wait(), 0) << script << job.err();
    EXPECT_EQ(count(job.out(), "of 2, sum 3\n"), 2) << script << job.out();
  }
}

TEST(RanksLauncher, TheLauncherServesOneProgramAfterAnother) {
  RunningCommand job(run_script("2", "\"$0\" meet && \"$0\" meet && exec \"$0\" meet"));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(count(job.out(), "of 2, sum 3\n"), 6) << job.out();
}

TEST(RanksLauncher, TheLauncherServesTheNextProgramWhereTheOneBeforeHasFailed) {
  RunningCommand job(run_script("2", "\"$0\" meet die; \"$0\" meet"));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(count(job.out(), "of 2, sum 3\n"), 4) << job.out();
}

TEST(RanksLauncher, TheLauncherRefusesTheSecondOfTwoProgramsAtOnce) {
  RunningCommand job(run_script("1",
                                "coproc \"$0\" meet stay; read -r line <&${COPROC[0]}; echo \"$line\"; \"$0\" meet; echo \"ended with $?\"; eval "
                                "\"exec ${COPROC[1]}>&-\"; wait $COPROC_PID"));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(count(job.out(), "met 0 of 1, sum 1\n"), 1) << job.out();
  EXPECT_EQ(count(job.out(), "ended with 92\n"), 1) << job.out();
  EXPECT_NE(job.err().find("rank 0 is taken by"), std::string::npos) << job.err();
}

TEST(RanksLauncher, TheLauncherIsNamedWithinTheTimeoutWhereItIsStopped) {
  RunningCommand job(run_script("1", "trap 'kill -CONT $PPID' EXIT; kill -STOP $PPID; UNISONO_TIMEOUT=1 \"$0\" meet"));
  EXPECT_EQ(job.wait(), 92) << job.out() << job.err();
  EXPECT_NE(job.err().find(fmt::format("the launcher, process {} (unisono), did not answer within 1000 ms: it is stopped", job.pid())),
            std::string::npos)
      << job.err();
  EXPECT_NE(job.err().find(fmt::format("kill -CONT {}", job.pid())), std::string::npos) << job.err();
}

TEST(RanksLauncher, TheLauncherAnswersNobodyOutsideItsOwnProcesses) {
  RunningCommand job(run_helper({"-n", "1"}, {"rest"}));
  ASSERT_TRUE(job.until_out_has("ready"));
  const std::string line = job.out().substr(job.out().find("ready"));
  const std::string id = line.substr(line.rfind(' ') + 1, 32);
  base::Opened opened = base::try_connect(rendezvous::launcher_address(id, 0), base::Deadline(std::chrono::seconds(20)));
  ASSERT_TRUE(opened.fd) << id;
  store::Client client(std::move(opened.fd), "the launcher's store");
  EXPECT_THROW(
      {
        client.send_greeting();
        client.try_get("key");
      },
      PeerFailed);
}

TEST(RanksLauncher, TheLauncherServesByTheDescriptorInAnotherNetwork) {
  RunningCommand job(run_script("1", "unshare --net true || { echo unshare; exit 0; }; exec unshare --net \"$0\" meet"));
  EXPECT_EQ(job.wait(), 0) << job.err();
  if (job.out() == "[0] unshare\n") GTEST_SKIP() << "unshare(1) may not make a network namespace here";
  EXPECT_EQ(job.out(), "[0] met 0 of 1, sum 1\n");
}

TEST(RanksLauncher, TheLauncherIsToldApartFromAForeignSocket) {
  RunningCommand job(unisono_command({"run", "-n", "1", "--", "env", "-u", "UNISONO_JOB_ID", RANK_HELPER, "foreign-socket"}),
                     {.environment = {{"UNISONO_TIMEOUT", "1"}}});
  EXPECT_EQ(job.wait(), 92) << job.out() << job.err();
  EXPECT_NE(job.err().find("(rank_helper), did not answer within 1000 ms"), std::string::npos) << job.err();
}

}  // namespace
}  // namespace unisono::testing
