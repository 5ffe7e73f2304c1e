// A member that dies or fails while a group is formed: the others learn who and how, as fast as inside a collective.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "covers.h"
#include "faults.h"

namespace unisono::testing {
namespace {

struct Loss {
  std::string how, kind, backend, cause, says;
};

class Forming : public ::testing::TestWithParam<Loss> {};

void expect_named(const std::string& error, const Loss& loss) {
  const bool in_order = loss.kind != "new";  // the list of new_group is the other way round
  EXPECT_TRUE(error.starts_with(fmt::format("PeerFailed cause={} culprit={} ", loss.cause, in_order ? 1 : 2))) << error;
  EXPECT_NE(error.find(loss.says), std::string::npos) << error;
  EXPECT_NE(word_after(error, "host="), "") << error;
  EXPECT_NE(word_after(error, "op="), "all_reduce") << error;
  EXPECT_EQ(word_after(error, "op="), loss.kind + "_group") << error;
}

// A call has thirty minutes, and the launcher leaves one: what ends before that ended because of the loss.
TEST_P(Forming, ALossIsSeenByAllOthers) {
  const Loss& loss = GetParam();
#if defined(WITHOUT_GLOO)
  if (loss.backend == "gloo") GTEST_SKIP() << "the plug-in gloo is not built";
#endif
  if (loss.kind == "shrink") COVERS("TS-21");
  const bool stops = loss.how == "stopped";
  RunningCommand job(faulty_job(4, {"form", loss.how, loss.kind}, {"--grace", "60"}),
                     {.environment = {{"TEST_INIT_BACKEND", loss.backend}, {"TEST_SILENCE_MS", stops ? "1500" : "30000"}}});
  ASSERT_TRUE(job.until_out_has("under way", 4)) << job.out() << job.err();
  std::vector<int> survivors{0, 2, 3};
  if (loss.kind == "shrink") {
    ::kill(pid_of(job, 3), SIGKILL);
    survivors.pop_back();
  }
  if (loss.how == "away" || loss.how == "inside") ::kill(pid_of(job, 1), SIGKILL);
  if (stops) {
    ::kill(pid_of(job, 1), SIGSTOP);
    kill_after_the_others(job, 1, survivors);
  }
  if (loss.how == "inside") {
    ASSERT_TRUE(job.until([&] { return count(job.out(), "error ") == 2; })) << job.out();  // though rank 2 has not come yet
    ::kill(pid_of(job, 2), SIGUSR1);
  }
  EXPECT_NE(job.wait(std::chrono::seconds(55)), 0) << job.out() << job.err();
  for (const int r : survivors) expect_named(line_of(lines_of_rank(job, r), "error "), loss);
  EXPECT_EQ(count(job.out(), "SUCCEEDED"), 0) << job.out();
  expect_no_crash(job);
  expect_nothing_left(job_id(job));
}

std::vector<Loss> losses() {
  std::vector<Loss> all;
  for (const char* backend : {"native", "tcp", "gloo"}) {
    for (const char* kind : {"new", "split", "local"}) {
      all.push_back({"away", kind, backend, "killed", "was killed by SIGKILL"});
      all.push_back({"inside", kind, backend, "killed", "was killed by SIGKILL"});
      all.push_back({"stopped", kind, backend, "silent", "for 1.5 s"});
      all.push_back({"throws", kind, backend, "aborted", "an exception left the scope"});
    }
  }
  for (const char* kind : {"new", "local", "shrink"}) {
    all.push_back({"dies-making", kind, "idle", "killed", "was killed by SIGKILL"});
    all.push_back({"fails-making", kind, "idle", "aborted", "no room for the group"});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Faults, Forming, ::testing::ValuesIn(losses()), [](const auto& one) {
  std::string name = one.param.how + "_" + one.param.kind + "_" + one.param.backend;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// The world's engine fails, when all have met already.
TEST(FormingTheWorld, ALossIsSeenByAllOthers) {
  for (const std::string how : {"dies-making", "fails-making"}) {
    RunningCommand job(faulty_job(4, {"join", how}, {"--grace", "60"}), {.environment = {{"TEST_INIT_BACKEND", "idle"}}});
    EXPECT_NE(job.wait(std::chrono::seconds(55)), 0) << job.out() << job.err();
    for (const int r : {0, 2, 3}) {
      const std::string error = line_of(lines_of_rank(job, r), "error ");
      EXPECT_TRUE(error.starts_with("PeerFailed ")) << how << ", rank " << r << ": " << error;
      EXPECT_EQ(word_after(error, "culprit="), "1") << error;
      EXPECT_NE(error.find(how == "dies-making" ? "was killed by SIGKILL" : "no room for the group"), std::string::npos) << error;
    }
    EXPECT_EQ(count(job.out(), "SUCCEEDED"), 0) << job.out();
    expect_no_crash(job);
  }
}

// The store goes with rank 0, which is no member: the members are told of that, and not only that something is gone.
TEST(FormingDirectly, TheDeathOfTheRankThatServesTheStoreIsNamed) {
  DirectJob job(DirectJob::Method::env, 4, {"form", "away", "new"});
  for (int r = 0; r < 4; ++r) ASSERT_TRUE(job[r].until_out_has("under way")) << job[r].out() << job[r].err();
  job[0].send(SIGKILL);
  for (const int r : {2, 3}) {
    EXPECT_EQ(job[r].wait(std::chrono::seconds(50)), 3) << job[r].out() << job[r].err();
    const std::string error = line_of(lines_of(job[r].out()), "error ");
    EXPECT_TRUE(error.starts_with("PeerFailed cause=killed culprit=3 ")) << error;
    EXPECT_NE(error.find("was killed by SIGKILL"), std::string::npos) << error;
  }
}

// Nobody dies: who does not come is missed at the end of the time, by name.
TEST(FormingDirectly, ARankThatDoesNotComeIsMissed) {
  DirectJob job(DirectJob::Method::env, 4, {"form", "away", "new"}, {{"TEST_INIT_TIMEOUT_MS", "6000"}});
  for (const int r : {0, 2, 3}) {
    EXPECT_TRUE(job[r].until_out_has("error ")) << job[r].out() << job[r].err();
    const std::string error = line_of(lines_of(job[r].out()), "error ");
    EXPECT_TRUE(error.starts_with("Timeout missing=2 ")) << error;
  }
}

}  // namespace
}  // namespace unisono::testing
