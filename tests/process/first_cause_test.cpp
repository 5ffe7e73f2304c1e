// The first cause: the pure part of the launcher's account of a failed job (F21).

#include "launch/process/first_cause.h"

#include <gtest/gtest.h>

#include <csignal>
#include <vector>

#include "launch/job/report.h"
#include "launch/process/memory_events.h"
#include "launch/process/signals.h"

namespace unisono::launcher {
namespace {

using How = RankEnd::How;

/// Ends in the order in which they were seen.
class Job {
 public:
  explicit Job(int ranks) : ends_(static_cast<std::size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      ends_[static_cast<std::size_t>(rank)].rank = rank;
      ends_[static_cast<std::size_t>(rank)].pid = 1000 + rank;
    }
  }
  RankEnd& ends(int rank, How how, int code, std::string status = "") {
    RankEnd& end = ends_[static_cast<std::size_t>(rank)];
    end.how = how;
    end.code = code;
    end.status = std::move(status);
    end.order = seen_++;
    return end;
  }
  int cause() const {
    const auto found = first_cause(ends_);
    return found ? static_cast<int>(*found) : -1;
  }
  int exit_code() const { return ends_[*first_cause(ends_)].exit_code(); }
  const std::vector<RankEnd>& all() const { return ends_; }

 private:
  std::vector<RankEnd> ends_;
  int seen_ = 0;
};

TEST(FirstCause, NobodyIsTheCauseWhereAllEndWell) {
  Job job(2);
  job.ends(1, How::exited, 0, "finalized");
  job.ends(0, How::exited, 0);
  EXPECT_EQ(job.cause(), -1);
}

TEST(FirstCause, ASurvivorThatIsSeenFirstDoesNotWin) {
  Job job(3);
  job.ends(0, How::exited, 1, "poisoned 2 rank 2 was killed");
  job.ends(1, How::signaled, SIGABRT, "poisoned 2 rank 2 was killed");  // nobody caught PeerFailed
  job.ends(2, How::signaled, SIGKILL, "initialized");
  EXPECT_EQ(job.cause(), 2);
  EXPECT_EQ(job.exit_code(), 137);
}

TEST(FirstCause, ASignalBeatsAnExitCode) {
  Job job(2);
  job.ends(0, How::exited, 1);  // a foreign program that lost its peer
  job.ends(1, How::signaled, SIGSEGV).dumped_core = true;
  EXPECT_EQ(job.cause(), 1);
  EXPECT_EQ(job.exit_code(), 139);
}

TEST(FirstCause, TheFirstSeenWinsAmongEquals) {
  Job job(3);
  job.ends(2, How::exited, 5);
  job.ends(0, How::exited, 6);
  job.ends(1, How::exited, 7);
  EXPECT_EQ(job.cause(), 2);
}

TEST(FirstCause, TheMostBlamedWins) {
  Job job(5);
  job.ends(3, How::exited, 9);
  job.ends(1, How::exited, 7, "initialized");
  job.ends(0, How::exited, 1, "poisoned 1 left");
  job.ends(2, How::exited, 1, "poisoned 1 left");
  job.ends(4, How::signaled, SIGSEGV);
  EXPECT_EQ(job.cause(), 1);
}

TEST(FirstCause, ARankThatGaveUpItselfIsACause) {
  Job job(2);
  job.ends(0, How::exited, 1, "poisoned 1 rank 1: out of data");
  job.ends(1, How::exited, 3, "poisoned 1 out of data");
  EXPECT_EQ(job.cause(), 1);
  EXPECT_EQ(job.exit_code(), 3);
}

TEST(FirstCause, ARankThatTheLauncherEndedIsNoCause) {
  Job job(2);
  job.ends(0, How::signaled, SIGTERM).ended_by_launcher = true;
  job.ends(1, How::exited, 0);
  EXPECT_EQ(job.cause(), -1);
}

TEST(FirstCause, LeavingWithoutFinalizeIsCodeOne) {
  Job job(2);
  job.ends(1, How::exited, 0, "initialized").left_without_finalize = true;
  job.ends(0, How::exited, 4, "poisoned 1 rank 1 has left");
  EXPECT_EQ(job.cause(), 1);
  EXPECT_EQ(job.exit_code(), 1);
  EXPECT_EQ(job.all()[1].describe(), "left without finalize (exit code 0)");
}

// An exception that nobody catches is SIGABRT, one that main catches is code 1: the rank that differs from most is the cause however they end.
TEST(FirstCause, TheRankThatDiffersFromMostIsTheCauseOfAMismatch) {
  Job job(4);
  job.ends(2, How::signaled, SIGABRT, "mismatch 1 4 rank 1 all_reduce, ranks 0, 2-3 broadcast");
  job.ends(0, How::exited, 1, "mismatch -1 2 rank 0 broadcast, rank 1 all_reduce");  // it could compare two only
  job.ends(3, How::exited, 1, "poisoned 2 rank 2 gave up");                          // it came too late to compare
  job.ends(1, How::exited, 7, "mismatch 1 4 rank 1 all_reduce, ranks 0, 2-3 broadcast");
  EXPECT_EQ(job.cause(), 1);
  EXPECT_EQ(job.exit_code(), 7);
}

TEST(FirstCause, NobodyIsTheCauseOfAMismatchWithoutAMajority) {
  Job job(2);
  job.ends(1, How::exited, 3, "mismatch -1 2 rank 0 all_reduce, rank 1 broadcast");
  job.ends(0, How::exited, 4, "mismatch -1 2 rank 0 all_reduce, rank 1 broadcast");
  const auto mismatch = fatal_mismatch(job.all());
  ASSERT_TRUE(mismatch.has_value());
  EXPECT_EQ(mismatch->culprit, -1);
  EXPECT_EQ(mismatch->text, "rank 0 all_reduce, rank 1 broadcast");
  EXPECT_EQ(job.cause(), 1);  // the first that was seen to end stands for all
}

TEST(FirstCause, AMismatchThatWasCaughtIsNone) {
  Job crash(3);  // the culprit goes on
  crash.ends(2, How::signaled, SIGSEGV, "mismatch 1 3 long ago");
  crash.ends(0, How::exited, 1, "poisoned 2 rank 2 was killed");
  crash.ends(1, How::exited, 1, "poisoned 2 rank 2 was killed");
  EXPECT_EQ(crash.cause(), 2);
  Job finished(3);
  finished.ends(1, How::exited, 0, "finalized");
  finished.ends(0, How::exited, 5, "mismatch 1 3 long ago");
  finished.ends(2, How::exited, 0, "finalized");
  EXPECT_EQ(finished.cause(), 0);
}

TEST(FirstCause, ARankThatHangsIsNamedByTheOthers) {
  Job job(4);
  job.ends(2, How::exited, 3, "poisoned 1 rank 2: barrier #5 was not done");
  job.ends(0, How::signaled, SIGABRT, "poisoned 1 rank 2: barrier #5 was not done");
  job.ends(3, How::exited, 4, "poisoned 2 rank 2 gave up");
  job.ends(1, How::signaled, SIGTERM, "initialized").ended_by_launcher = true;
  EXPECT_EQ(job.cause(), 1);
  EXPECT_TRUE(is_only_named(job.all()[1]));
  EXPECT_EQ(exit_code_of_job(job.all(), 1), 3) << "the most blamed of those that failed";
  EXPECT_EQ(said_of(job.all(), 1), "rank 2: barrier #5 was not done");
}

TEST(FirstCause, ARankThatHasLeftEarlyIsNamedByTheOthers) {
  Job job(2);
  job.ends(1, How::exited, 0, "finalized");
  job.ends(0, How::exited, 5, "poisoned 1 rank 1 has left the group");
  EXPECT_EQ(job.cause(), 1);
  EXPECT_EQ(exit_code_of_job(job.all(), 1), 5);
}

TEST(FirstCause, TheCulpritsOfErrorsAreFollowedFromRankToRank) {
  Job job(4);
  job.ends(0, How::exited, 1, "poisoned 2 rank 2 gave up");
  job.ends(1, How::exited, 1, "poisoned 2 rank 2 gave up");
  job.ends(2, How::exited, 2, "poisoned 3 rank 2 ended with CheckpointError");
  job.ends(3, How::signaled, SIGTERM, "poisoned 3 rank 3: no space").ended_by_launcher = true;
  EXPECT_EQ(job.cause(), 3);
  EXPECT_EQ(exit_code_of_job(job.all(), 3), 2) << "the most blamed of those that failed";
}

TEST(FirstCause, TheFirstToFailStandsForRanksThatBlameEachOther) {
  Job job(2);
  job.ends(1, How::exited, 7, "poisoned 0 text");
  job.ends(0, How::exited, 8, "poisoned 1 text");
  EXPECT_EQ(job.cause(), 1);
  EXPECT_EQ(exit_code_of_job(job.all(), 1), 7);
}

TEST(FirstCause, TheFirstConsequenceIsTheCauseWhereThereAreOnlyConsequences) {
  Job job(2);
  job.ends(0, How::exited, 1, "poisoned -1 the connection between two ranks was cut");
  job.ends(1, How::exited, 0);
  EXPECT_EQ(job.cause(), 0);
}

TEST(Report, TheReportGroupsTheOthersInOneLine) {
  Job job(7);
  job.ends(1, How::signaled, SIGKILL, "initialized");
  job.ends(0, How::exited, 1, "poisoned 1 killed");
  for (int rank = 2; rank < 5; ++rank) job.ends(rank, How::exited, 1, "poisoned 1 killed");
  job.ends(5, How::signaled, SIGTERM).ended_by_launcher = true;
  EXPECT_EQ(describe_others(job.all(), 1),
            "ranks 0, 2-4 exited with code 1, blaming rank 1; rank 5 ended by the launcher (SIGTERM); rank 6 is still running (pid 1006)");
}

TEST(Report, TheReportBlamesNobodyWhereNobodyIsKnown) {
  Job job(3);
  for (int rank = 0; rank < 3; ++rank) job.ends(rank, How::exited, 3, "poisoned -1 the connection to rank 2 was reset");
  EXPECT_EQ(job.cause(), 0);
  EXPECT_EQ(describe_others(job.all(), 0), "ranks 1, 2 exited with code 3");
}

TEST(Report, TheReportNamesASignalInOneWay) {
  Job job(2);
  EXPECT_EQ(job.ends(0, How::signaled, SIGABRT).describe(), "ended by SIGABRT");
  EXPECT_EQ(job.ends(1, How::signaled, 40).describe(), "ended by signal 40");
  RankEnd end{.how = How::signaled, .code = SIGSEGV, .dumped_core = true};
  EXPECT_EQ(end.describe(), "ended by SIGSEGV (core dumped)");
}

// SIGKILL is no doing of the program's own.
TEST(Report, TheReportHintsAtWhatIsBehindSigkill) {
  RankEnd end{.how = How::signaled, .code = SIGKILL};
  EXPECT_NE(hint_of(end).find("outside"), std::string::npos);
  EXPECT_EQ(end.describe(), "ended by SIGKILL");
  end.out_of_memory = true;
  EXPECT_NE(hint_of(end).find("memory ran out"), std::string::npos);
  EXPECT_EQ(end.describe(), "ended by SIGKILL (out of memory)");
  EXPECT_EQ(hint_of({.how = How::signaled, .code = SIGSEGV}), "");
  EXPECT_EQ(hint_of({.how = How::exited, .code = SIGKILL}), "");
  EXPECT_EQ(hint_of({.how = How::signaled, .code = SIGKILL, .ended_by_launcher = true}), "");
}

TEST(MemoryEvents, MemoryEventsAreReadInBothVersions) {
  EXPECT_EQ(kills_in("low 0\nhigh 12\nmax 30\noom 2\noom_kill 3\noom_group_kill 0\n"), 3U);
  EXPECT_EQ(kills_in("oom_kill_disable 0\nunder_oom 0\noom_kill 17"), 17U);
  EXPECT_EQ(kills_in("oom_kill_disable 0\nunder_oom 0\n"), std::nullopt);
  EXPECT_EQ(kills_in(""), std::nullopt);
}

TEST(Signals, SignalsHaveOneName) {
  EXPECT_EQ(signal_name(SIGABRT), "SIGABRT");
  EXPECT_EQ(parse_signal(signal_name(SIGABRT)), SIGABRT);
}

TEST(Signals, SignalsAreReadInEverySpelling) {
  for (const char* text : {"USR1", "SIGUSR1", "usr1", "sigusr1", "10"}) EXPECT_EQ(parse_signal(text), SIGUSR1) << text;
  for (const char* text : {"", "SIG", "NOSUCH", "0", "65", "-1", "10x"}) EXPECT_FALSE(parse_signal(text).has_value()) << text;
  EXPECT_EQ(signal_name(SIGKILL), "SIGKILL");
  EXPECT_EQ(signal_name(40), "signal 40");
}

}  // namespace
}  // namespace unisono::launcher
