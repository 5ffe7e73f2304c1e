// A group of some of the ranks fails, and ranks leave their Context because of it: the launcher names the rank that began, and nobody who only left.

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "faults.h"

namespace unisono::testing {
namespace {

std::vector<std::string> job_of(int ranks, const std::string& how) {
  std::vector<std::string> all = faulty_job(ranks, {}, {"--grace", "60"});
  all.back() = PART_RANK;
  all.push_back(how);
  return all;
}

// A rank that leaves early does so before others have said that they are ready.
void let_go(RunningCommand& job, int ranks, int rank) {
  ASSERT_TRUE(job.until_out_has("ready ", ranks)) << job.out() << job.err();
  ::kill(std::stoi(line_of(lines_of_rank(job, rank), "ready ")), SIGUSR1);
}

TEST(SmallerGroup, TheRankThatWasKilledIsTheFirstCause) {
  RunningCommand job(job_of(3, "killed"));
  ASSERT_TRUE(job.until_out_has("left ", 1)) << job.out() << job.err();  // rank 0, whose peer has been killed
  let_go(job, 3, 2);
  EXPECT_EQ(job.wait(std::chrono::seconds(50)), 137) << job.out() << job.err();
  EXPECT_EQ(word_after(job.err(), "first cause: rank "), "1") << job.err();
  EXPECT_NE(job.err().find("ranks 0, 2 exited with code 3, blaming rank 1"), std::string::npos) << job.err();
  // Rank 0 had left the job when the last rank called; it is not the one to blame.
  const std::string last = line_of(lines_of_rank(job, 2), "left ");
  EXPECT_NE(last.find("was killed by SIGKILL [culprit: rank 1"), std::string::npos) << last;
}

TEST(SmallerGroup, TheRankThatCalledSomethingElseIsTheFirstCause) {
  RunningCommand job(job_of(4, "mismatch"));
  ASSERT_TRUE(job.until_out_has("left ", 2)) << job.out() << job.err();  // ranks 0 and 2
  for (const int r : {1, 3}) let_go(job, 4, r);
  EXPECT_EQ(job.wait(std::chrono::seconds(50)), 3) << job.out() << job.err();
  EXPECT_EQ(word_after(job.err(), "first cause: rank "), "1") << job.err();
}

// A loss that only another group's call has met: shrink_group of the world finds it.
TEST(SmallerGroup, ALossThatItHasMetIsOneOfTheWorld) {
  for (const char* backend : {"native", "tcp"}) {
    RunningCommand job(faulty_job(3, {"survive", "1", "part"}, {"--grace", "60"}), {.environment = {{"TEST_INIT_BACKEND", backend}}});
    ASSERT_TRUE(job.until_out_has("under way", 3)) << job.out() << job.err();
    ::kill(pid_of(job, 1), SIGKILL);
    job.wait(std::chrono::seconds(50));
    for (const int r : {0, 2}) EXPECT_EQ(line_of(lines_of_rank(job, r), "left "), "0,2, sum 2") << backend << ", rank " << r << job.err();
    expect_no_crash(job);
  }
}

// An exception leaves the Context of a rank after shrink_group: the world is over by then, and the others wait in what is left of it.
TEST(SmallerGroup, AnExceptionAfterALossIsToldToTheOthers) {
  for (const char* backend : {"native", "tcp"}) {
    RunningCommand job(faulty_job(4, {"survive", "1", "throws"}, {"--grace", "60"}), {.environment = {{"TEST_INIT_BACKEND", backend}}});
    ASSERT_TRUE(job.until_out_has("under way", 4)) << job.out() << job.err();
    ::kill(pid_of(job, 1), SIGKILL);
    job.wait(std::chrono::seconds(50));
    for (const int r : {2, 3}) {
      const std::string then = line_of(lines_of_rank(job, r), "then ");
      EXPECT_TRUE(then.starts_with("PeerFailed cause=aborted culprit=0 ")) << backend << ", rank " << r << ": " << then;
      EXPECT_NE(then.find("an exception left the scope of its Context"), std::string::npos) << then;
    }
    expect_no_crash(job);
  }
}

}  // namespace
}  // namespace unisono::testing
