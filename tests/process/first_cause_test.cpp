// Who is to blame: the pure part of the launcher's account of a failed job (F21).

#include "launch/first_cause.h"

#include <gtest/gtest.h>

#include <csignal>
#include <vector>

#include "launch/report.h"
#include "launch/signals.h"

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

TEST(FirstCause, NobodyWhereAllEndWell) {
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

TEST(FirstCause, AmongEqualsTheFirstSeenWins) {
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

TEST(FirstCause, WhoeverGaveUpItselfIsACause) {
  Job job(2);
  job.ends(0, How::exited, 1, "poisoned 1 rank 1: out of data");
  job.ends(1, How::exited, 3, "poisoned 1 out of data");
  EXPECT_EQ(job.cause(), 1);
  EXPECT_EQ(job.exit_code(), 3);
}

TEST(FirstCause, WhatTheLauncherEndedIsNoCause) {
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

TEST(FirstCause, OnlyConsequencesIsStillACause) {
  Job job(2);
  job.ends(0, How::exited, 1, "poisoned 1 silent for 30 s");
  job.ends(1, How::exited, 0);
  EXPECT_EQ(job.cause(), 0);
}

TEST(Report, GroupsTheOthersInOneLine) {
  Job job(7);
  job.ends(1, How::signaled, SIGKILL, "initialized");
  job.ends(0, How::exited, 1, "poisoned 1 killed");
  for (int rank = 2; rank < 5; ++rank) job.ends(rank, How::exited, 1, "poisoned 1 killed");
  job.ends(5, How::signaled, SIGTERM).ended_by_launcher = true;
  EXPECT_EQ(describe_others(job.all(), 1),
            "ranks 0, 2-4 exited with code 1, blaming rank 1; rank 5 ended by the launcher (SIGTERM); rank 6 is still running (pid 1006)");
}

TEST(Signals, AreReadInEverySpelling) {
  for (const char* text : {"USR1", "SIGUSR1", "usr1", "sigusr1", "10"}) EXPECT_EQ(parse_signal(text), SIGUSR1) << text;
  for (const char* text : {"", "SIG", "NOSUCH", "0", "65", "-1", "10x"}) EXPECT_FALSE(parse_signal(text).has_value()) << text;
  EXPECT_EQ(signal_name(SIGKILL), "SIGKILL");
  EXPECT_EQ(signal_name(40), "signal 40");
}

}  // namespace
}  // namespace unisono::launcher
