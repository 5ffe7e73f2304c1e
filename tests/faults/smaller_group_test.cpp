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

// In whatever order objects are destroyed, the others hear of the exception, and not of a finalize.
TEST(SmallerGroup, AnExceptionIsToldInWhateverOrderObjectsEnd) {
  for (const char* how : {"group-first", "context-first", "static", "caught"}) {
    for (const char* backend : {"native", "tcp"}) {
      RunningCommand job(
          faulty_job(3, {"unwinds", how}),
          {.environment = backend == std::string("tcp") ? Variables{{"TEST_INIT_BACKEND", backend}, {"TEST_HOSTS", "a,b,b"}} : Variables{}});
      EXPECT_EQ(job.wait(std::chrono::seconds(50)), std::string(how) == "caught" ? 0 : 5) << how << job.err();
      for (const int r : {0, 2}) {
        const std::string error = line_of(lines_of_rank(job, r), "error ");
        EXPECT_TRUE(error.starts_with("PeerFailed cause=aborted culprit=1 ")) << how << ", rank " << r << ": " << error;
        EXPECT_NE(error.find("an exception left the scope of its "), std::string::npos) << how << ", rank " << r << ": " << error;
      }
      expect_no_crash(job);
    }
  }
}

// A rank of another group is called by both of its numbers.
TEST(SmallerGroup, ErrorsNameTheRanksOfTheWorldToo) {
  RunningCommand job(faulty_job(4, {"deadline", "part"}));
  EXPECT_EQ(job.wait(std::chrono::seconds(50)), 0) << job.err();
  const std::string own = line_of(lines_of_rank(job, 2), "error "), other = line_of(lines_of_rank(job, 3), "error ");
  const auto has = [](const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(has(own, "recv #2 on group {3, 2}, rank 1 (2 in the world), at ")) << own;
  EXPECT_TRUE(has(own, ": recv #2 was not done within 300 ms; waiting for rank 0 (3 in the world)")) << own;
  EXPECT_TRUE(has(own, "[culprit: rank 0 (3 in the world) on ")) << own;
  EXPECT_TRUE(has(other, ", rank 0 (3 in the world), at ")) << other;
  EXPECT_TRUE(has(other, ": a deadline of rank 1 (2 in the world) has passed: recv #2 was not done within 300 ms")) << other;
  EXPECT_TRUE(has(other, "[culprit: rank 1 (2 in the world) on ")) << other;
}

// The rank that was waited for had no such deadline: it is told whose has passed, and for what.
TEST(Deadline, TheRankThatWasWaitedForIsToldWhose) {
  for (const char* backend : {"native", "tcp"}) {
    RunningCommand job(
        faulty_job(2, {"deadline", "world"}),
        {.environment = backend == std::string("tcp") ? Variables{{"TEST_INIT_BACKEND", backend}, {"TEST_HOSTS", "a,b"}} : Variables{}});
    EXPECT_EQ(job.wait(std::chrono::seconds(50)), 0) << job.err();
    const std::string own = line_of(lines_of_rank(job, 0), "error "), other = line_of(lines_of_rank(job, 1), "error ");
    EXPECT_TRUE(own.starts_with("Timeout missing=1 culprit=1 ")) << own;
    EXPECT_TRUE(other.starts_with("Timeout missing=1 culprit=0 ")) << other;
    EXPECT_NE(other.find("a deadline of rank 0 has passed: recv #2 was not done within 300 ms; waiting for rank 1"), std::string::npos) << other;
  }
}

// A rank that needs the world no more finalizes after another one's deadline has passed there.
TEST(Deadline, ARankThatFinalizesAfterwardsHasFinalized) {
  RunningCommand job(faulty_job(2, {"deadline", "away"}));
  ASSERT_TRUE(job.until_out_has("error ", 1)) << job.out() << job.err();
  ::kill(pid_of(job, 1), SIGUSR1);
  EXPECT_EQ(job.wait(std::chrono::seconds(50)), 0) << job.err();
  EXPECT_EQ(count(job.err(), "without finalize"), 0) << job.err();
}

// Each sends a large message to the next, and nobody receives: no rank is to blame alone, and the error says what helps.
TEST(Deadline, RanksThatAllSendAreToldAsACircle) {
  for (const int ranks : {2, 3}) {
    RunningCommand job(faulty_job(ranks, {"deadline", "circle", "2000"}));
    EXPECT_EQ(job.wait(std::chrono::seconds(50)), 3) << job.err();
    const std::string circle = ranks == 2 ? "ranks 0, 1 wait for each other: " : "ranks 0-2 wait for each other: ";
    const std::string advice =
        "all of them send before they receive, and a message of more than 64 KiB waits for its receiver: use send_recv, or isend";
    for (int r = 0; r < ranks; ++r) {
      const std::string error = line_of(lines_of_rank(job, r), "error ");
      EXPECT_TRUE(error.starts_with("Timeout missing=")) << error;
      EXPECT_EQ(word_after(error, "culprit="), "-1") << error;
      EXPECT_NE(error.find(circle), std::string::npos) << error;
      EXPECT_NE(error.find(advice), std::string::npos) << error;
    }
    const auto at = job.err().find("first cause: ");
    ASSERT_NE(at, std::string::npos) << job.err();
    const std::string verdict = job.err().substr(at);
    EXPECT_NE(verdict.find(circle), std::string::npos) << job.err();
    EXPECT_NE(verdict.find(advice), std::string::npos) << job.err();
  }
}

TEST(Deadline, AMessageWithAnotherTagIsNamedWhereItsSenderHasLeft) {
  RunningCommand job(faulty_job(2, {"deadline", "astray"}));
  EXPECT_EQ(job.wait(std::chrono::seconds(50)), 0) << job.err();
  const std::string error = line_of(lines_of_rank(job, 1), "error ");
  EXPECT_NE(
      error.find("rank 0 has left the group (finalize) and will not come; rank 0 has sent it a message with tag 7 (float32 × 1000000), which no "
                 "receive has asked for"),
      std::string::npos)
      << error;
}

// The launcher ends the rank that hangs; the others have named it.
TEST(Deadline, ARankThatHangsIsTheFirstCause) {
  RunningCommand job(faulty_job(3, {"deadline", "hangs", "2000"}, {"--grace", "0.2"}));
  EXPECT_EQ(job.wait(std::chrono::seconds(50)), 3) << job.err();
  EXPECT_EQ(word_after(job.err(), "first cause: rank "), "1") << job.err();
  EXPECT_NE(job.err().find("barrier #2 was not done within 2000 ms; waiting for rank 1"), std::string::npos) << job.err();
}

}  // namespace
}  // namespace unisono::testing
