// `unisono run --stdin`: which ranks get standard input.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "running_command.h"

namespace unisono::testing {
namespace {

TEST(LauncherStdin, RankZeroGetsItByDefault) {
  RunningCommand job(run_helper({"-n", "3"}, {"cat"}));
  job.type("word\n");
  job.close_input();
  ASSERT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(count(job.out(), "[0] read word\n"), 1) << job.out();
  EXPECT_EQ(count(job.out(), "read word"), 1) << job.out();
  EXPECT_EQ(count(job.out(), "end of input"), 3) << job.out();
}

TEST(LauncherStdin, AnotherRankGetsItWhereAsked) {
  RunningCommand job(run_helper({"-n", "3", "--stdin", "2"}, {"cat"}));
  job.type("word\n");
  job.close_input();
  ASSERT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(count(job.out(), "[2] read word\n"), 1) << job.out();
  EXPECT_EQ(count(job.out(), "read word"), 1) << job.out();
}

TEST(LauncherStdin, AllGetItWhereAsked) {
  RunningCommand job(run_helper({"-n", "3", "--stdin", "all"}, {"cat"}));
  job.type("word\n");
  ASSERT_TRUE(job.until_out_has("read word", 3)) << job.out();
  job.type("another\n");
  ASSERT_TRUE(job.until_out_has("read another", 3)) << job.out();
  EXPECT_EQ(count(job.out(), "end of input"), 0) << job.out();
  job.close_input();
  ASSERT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(count(job.out(), "end of input"), 3) << job.out();
}

// Its end comes although the launcher's own input stays open.
TEST(LauncherStdin, NobodyGetsItWhereAsked) {
  RunningCommand job(run_helper({"-n", "2", "--stdin", "none"}, {"cat"}));
  job.type("word\n");
  ASSERT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(count(job.out(), "read word"), 0) << job.out();
  EXPECT_EQ(count(job.out(), "end of input"), 2) << job.out();
}

// More than pipes and the launcher hold, from a file; a rank that does not want it keeps nobody from it.
TEST(LauncherStdin, AllGetAllOfAFileThoughOneDoesNotRead) {
  TemporaryFolder folder;
  const std::string file = folder.path() + "/in";
  ASSERT_EQ(std::system(("head -c 5000000 /dev/zero > " + file).c_str()), 0);
  RunningCommand job(
      {"/bin/bash", "-c",
       fmt::format("{} run -n 3 --stdin all -- /bin/sh -c 'if [ $RANK = 1 ]; then exec true; fi; wc -c' < {}", UNISONO_COMMAND, file)});
  ASSERT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(count(job.out(), "[0] 5000000\n") + count(job.out(), "[2] 5000000\n"), 2) << job.out();
}

TEST(LauncherStdin, WhatIsTypedGoesToAll) {
  RunningCommand job(run_helper({"-n", "2", "--stdin", "all"}, {"cat"}), on_terminal({{"NO_COLOR", "1"}}));
  job.type("word\n");
  ASSERT_TRUE(job.until_out_has("read word", 2)) << job.out();
  job.type("\x04");
  ASSERT_EQ(job.wait(), 0) << job.out();
  EXPECT_EQ(count(job.out(), "end of input"), 2) << job.out();
}

TEST(LauncherStdin, WhatIsTypedGoesToTheRankChosen) {
  RunningCommand job(unisono_command({"run", "-n", "3", "--stdin", "1", "--", PLAIN_HELPER, "prompt", "1"}), on_terminal({{"NO_COLOR", "1"}}));
  ASSERT_TRUE(job.until_out_has("[1] name? ")) << job.out();
  job.type("Ada\n");
  ASSERT_EQ(job.wait(), 0) << job.out();
  EXPECT_EQ(count(job.out(), "[1] hello Ada"), 1) << job.out();
}

TEST(LauncherStdin, ARankThatIsNotThereIsRefused) {
  RunningCommand beyond(run_helper({"-n", "3", "--stdin", "3"}, {"cat"}));
  EXPECT_EQ(beyond.wait(), 2);
  EXPECT_EQ(count(beyond.err(), "standard input cannot go to rank 3: the last rank is 2"), 1) << beyond.err();
  for (const char* word : {"some", "-1", "1x", ""}) {
    RunningCommand wrong(run_helper({"-n", "3", std::string("--stdin=") + word}, {"cat"}));
    EXPECT_EQ(wrong.wait(), 2) << word;
    EXPECT_EQ(count(wrong.err(), "--stdin"), 1) << wrong.err();
  }
}

}  // namespace
}  // namespace unisono::testing
