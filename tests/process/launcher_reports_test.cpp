// `unisono run`: how the reports of the ranks (a Mismatch, their states in the store) decide who is the first cause.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "running_command.h"

namespace unisono::testing {
namespace {

using std::chrono::milliseconds;

// ---- a Mismatch that nobody catches ------------------------------------------------------------------------------

// Rank 1 has called something else than the three others, and is named whichever rank the launcher sees first.
TEST(LauncherEnding, TheRankThatDiffersIsTheFirstCauseOfAMismatch) {
  for (const char* how : {"uncaught", "unwound", "caught"}) {
    RunningCommand job(run_helper({"-n", "4"}, {"mismatch", "1", how}));
    EXPECT_EQ(job.wait(), std::string(how) == "uncaught" ? 134 : 11) << job.err();
    EXPECT_EQ(count(job.err(), "[unisono] first cause: rank 1 "), 1) << job.err();
    EXPECT_EQ(count(lines_of(job.err()).back(), ": the ranks called different things"), 1) << job.err();
    const std::string calls = "rank 1 all_reduce(float32 × 3, sum), ranks 0, 2, 3 all_reduce(float32 × 2, sum) [culprit: rank 1 on ";
    for (int rank = 0; rank < 4; ++rank) {
      const auto says = [&](const std::string& line) { return line.starts_with(tag(rank)) && line.find(calls) != std::string::npos; };
      const auto lines = lines_of(job.err());
      const auto line = std::ranges::find_if(lines, says);
      if (std::string(how) == "uncaught" && rank > 1) {  // the culprit and the lowest other rank print it
        EXPECT_EQ(line, lines.end()) << job.err();
        EXPECT_EQ(count(job.err(), tag(rank)), 0) << job.err();
        continue;
      }
      ASSERT_NE(line, lines.end()) << how << ", rank " << rank << "\n" << job.err();
      EXPECT_EQ(line->find("this rank another than most: ") != std::string::npos, rank == 1) << *line;
    }
  }
}

// By its rank in the world, though the group calls it otherwise; and a finalize of all of them does not make it forgotten.
TEST(LauncherEnding, TheRankThatDiffersIsTheFirstCauseOfAMismatchInAGroup) {
  for (int again = 0; again < 4; ++again) {  // one that nobody tells may be the first to end by chance
    RunningCommand job(run_helper({"-n", "4"}, {"mismatch", "2", "in-a-group"}));
    EXPECT_EQ(job.wait(), 12) << job.err();
    EXPECT_EQ(count(job.err(), "[unisono] first cause: rank 2 "), 1) << job.err();
    EXPECT_EQ(count(job.err(), "this rank another than most: rank 1 all_reduce(float32 × 3, sum), ranks 0, 2 all_reduce(float32 × 2, sum)"), 1)
        << job.err();
  }
}

TEST(LauncherEnding, NobodyIsTheFirstCauseOfAMismatchOfTwoRanksOfAGroup) {
  RunningCommand job(run_helper({"-n", "3"}, {"mismatch", "2", "in-a-pair"}));
  const int code = job.wait();
  EXPECT_TRUE(code == 10 || code == 12) << code;
  EXPECT_EQ(count(job.err(), "first cause: the ranks called different things: "), 1) << job.err();
}

// By its rank in the world. The others have failed because of it, though they end before.
TEST(LauncherEnding, ARankThatGivesUpAGroupIsTheFirstCause) {
  RunningCommand job(run_helper({"-n", "3"}, {"give-up-a-group"}));
  EXPECT_EQ(job.wait(), 11) << job.err();
  EXPECT_EQ(count(job.err(), "[unisono] first cause: rank 1 "), 1) << job.err();
}

TEST(LauncherEnding, NobodyIsTheFirstCauseOfAMismatchOfTwoRanks) {
  RunningCommand job(run_helper({"-n", "2"}, {"mismatch", "1", "caught"}));
  const int code = job.wait();
  EXPECT_TRUE(code == 10 || code == 11) << code;
  EXPECT_EQ(
      count(job.err(), "first cause: the ranks called different things: rank 0 all_reduce(float32 × 2, sum), rank 1 all_reduce(float32 × 3, sum)"), 1)
      << job.err();
  EXPECT_EQ(count(job.err(), "culprit"), 0) << job.err();
}

// A Mismatch that was caught, after which the job went on, is no cause of what happens later.
TEST(LauncherEnding, AMismatchThatWasCaughtIsForgotten) {
  RunningCommand job(run_helper({"-n", "3"}, {"mismatch", "1", "goes-on"}));
  EXPECT_EQ(job.wait(), 9);
  EXPECT_EQ(count(job.err(), "first cause: rank 2 "), 1) << job.err();
}

// ---- the states that ranks write into the store -----------------------------------------------------------------

TEST(LauncherStatus, K4LeavingWithoutFinalizeIsAnErrorWithCodeOne) {
  RunningCommand job(run_helper({"-n", "2", "--grace", "0.2"}, {"play", "set initialized;rest", "set initialized;exit 0"}));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(count(job.err(), "first cause: rank 1"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "left without finalize (exit code 0)"), 1) << job.err();
}

// K4: only who was asked to initialize owes a finalize.
TEST(LauncherStatus, AnAdoptedJobNeedsNoFinalize) {
  RunningCommand job(run_helper({"-n", "2"}, {"adopted"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(count(job.err(), "without finalize"), 0) << job.err();
}

TEST(LauncherStatus, FinalizedRanksMayLeaveEarly) {
  RunningCommand job(
      run_helper({"-n", "2"}, {"play", "set initialized;wait gone;set finalized;exit 0", "set initialized;set finalized;tell gone;exit 0"}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.err(), "");
}

// Seen to end first, and still not the cause; an uncaught PeerFailed is a SIGABRT.
TEST(LauncherStatus, SurvivorsThatFailBecauseOfAPeerAreNotTheCause) {
  RunningCommand job(
      run_helper({"-n", "3"}, {"play", "set initialized;set poisoned 2 rank 2 was killed;tell a;exit 1",
                               "set initialized;set poisoned 2 rank 2 was killed;tell b;kill 6", "set initialized;wait a;wait b;kill 9"}));
  EXPECT_EQ(job.wait(), 137);
  EXPECT_EQ(count(job.err(), "first cause: rank 2"), 1) << job.err();
  EXPECT_EQ(count(job.err(), "rank 0 exited with code 1, blaming rank 2"), 1) << job.err();
}

// The launcher ends it; the others have named it. Their text says why.
TEST(LauncherStatus, ARankThatHangsIsTheCauseWhereTheOthersNameIt) {
  RunningCommand job(
      run_helper({"-n", "3", "--grace", "0.2"}, {"play", "set initialized;set poisoned 1 rank 0: barrier #5 was not done;exit 3",
                                                 "set initialized;rest", "set initialized;set poisoned 1 rank 0: barrier #5 was not done;exit 3"}));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_TRUE(lines_of(job.err()).back().starts_with("[unisono] first cause: rank 1 (pid ")) << job.err();
  EXPECT_TRUE(lines_of(job.err()).back().ends_with("): rank 0: barrier #5 was not done")) << job.err();
}

// Ranks that wait for each other: none of them is to blame.
TEST(LauncherStatus, TheTextIsTheFirstCauseWhereNobodyIsToBlame) {
  RunningCommand job(run_helper({"-n", "2"}, {"play", "set initialized;set poisoned -1 ranks 0, 1 wait for each other;exit 4",
                                              "set initialized;set poisoned -1 ranks 0, 1 wait for each other;exit 4"}));
  EXPECT_EQ(job.wait(), 4);
  EXPECT_EQ(lines_of(job.err()).back(), "[unisono] first cause: ranks 0, 1 wait for each other") << job.err();
}

TEST(LauncherStatus, TheReasonThatARankHasGivenIsShown) {
  RunningCommand job(run_helper({"-n", "2"}, {"play", "set initialized;set poisoned 1 rank 1 ended with ValueError: bad data;exit 1",
                                              "set initialized;set poisoned 1 rank 1 ended with ValueError: bad data;exit 6"}));
  EXPECT_EQ(job.wait(), 6);
  EXPECT_TRUE(lines_of(job.err()).back().ends_with(" exited with code 6: ended with ValueError: bad data")) << job.err();
}

TEST(LauncherStatus, APoisonedGroupNeedsNoFinalize) {
  RunningCommand job(run_helper({"-n", "2"}, {"play", "set initialized;set poisoned 1 it said so;tell a;exit 0", "set initialized;wait a;exit 6"}));
  EXPECT_EQ(job.wait(), 6);
  EXPECT_EQ(count(job.err(), "without finalize"), 0) << job.err();
}

TEST(LauncherStatus, AJobThatGoesOnAfterShrinkingIsNotEnded) {
  RunningCommand job(
      run_helper({"-n", "3", "--grace", "0.2"},
                 {"play", "answer;set initialized;set shrunk;say smaller;tell a;read;tell go;set finalized;exit 0",
                  "answer;set initialized;set shrunk;say smaller;tell b;wait go;set finalized;exit 0", "set initialized;wait a;wait b;kill 9"}));
  ASSERT_TRUE(job.until_out_has("smaller", 2));
  EXPECT_FALSE(job.until([&] { return count(job.out(), "caught 15") > 0; }, milliseconds(1000))) << job.out();
  job.type("\n");
  EXPECT_EQ(job.wait(), 137);  // a rank was lost all the same
  EXPECT_EQ(count(job.err(), "ranks 0, 1 exited with code 0"), 1) << job.err();
}

TEST(LauncherStatus, AJobThatOnlySomeHaveShrunkIsEnded) {
  RunningCommand job(
      run_helper({"-n", "3", "--grace", "1"}, {"play", "set initialized;set shrunk;tell a;rest", "set initialized;set poisoned 2 killed;tell b;rest",
                                               "set initialized;wait a;wait b;kill 9"}));
  EXPECT_EQ(job.wait(), 137);
  EXPECT_EQ(count(job.err(), "ranks 0, 1 ended by the launcher (SIGTERM)"), 1) << job.err();
}

TEST(LauncherStatus, E1EachAttemptHasAFreshStore) {
  RunningCommand job(run_helper({"-n", "1", "--max-restarts", "1"}, {"play", "set initialized;exit 0"}));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(count(job.err(), "left without finalize"), 2) << job.err();
}

}  // namespace
}  // namespace unisono::testing
