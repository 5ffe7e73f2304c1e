// Ranks that die or stop in jobs whose ranks connect when they first need to: a rank that others are watched by, the first one, and one that has a
// single neighbour. All survivors name the same rank, and can go on without it.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>

#include "faults.h"

namespace unisono::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Job {
  std::string name;
  std::string hosts;  ///< of the ranks
  int victim = 1;
  std::string moment = "small";

  int ranks() const { return static_cast<int>(std::ranges::count(hosts, ',')) + 1; }
};

std::ostream& operator<<(std::ostream& out, const Job& job) { return out << job.name; }

RunningCommand::Options variables_of(const Job& job, const Variables& more = {}) {
  RunningCommand::Options options{.environment = {{"TEST_HOSTS", job.hosts}, {"UNISONO_BACKEND", "tcp"}, {"UNISONO_MAX_EAGER_CONNECTIONS", "0"}}};
  options.environment.insert(more.begin(), more.end());
  return options;
}

/// Waits until all are in their calls: so many processes that share the processors take a while to begin.
bool are_under_way(RunningCommand& job, int ranks) {
  return job.until([&] { return count(job.out(), "under way") >= ranks; }, seconds(120));
}

// In 16 ranks on as many hosts rank 0 watches 1 to 8, and rank 1 watches the others.
const std::string sixteen = "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p";
const std::string eight = "a,b,c,d,e,f,g,h";
const std::string four_times_two = "a,a,b,b,c,c,d,d";

class DeadOnDemand : public ::testing::TestWithParam<Job> {};

TEST_P(DeadOnDemand, AllNameADeadRankOnDemand) {
  const Job& parameters = GetParam();
  const int ranks = parameters.ranks();
  RunningCommand job(faulty_job(ranks, {"work", parameters.moment, std::to_string(parameters.victim)}, {"--grace", "60"}), variables_of(parameters));
  ASSERT_TRUE(are_under_way(job, ranks)) << job.out() << job.err();
  ::kill(pid_of(job, parameters.victim), SIGKILL);
  if (parameters.moment == "idle") {
    for (int r = 0; r < ranks; ++r) {
      if (r != parameters.victim) ::kill(pid_of(job, r), SIGUSR1);
    }
  }
  EXPECT_EQ(job.wait(seconds(50)), 137) << job.out() << job.err();
  for (int r = 0; r < ranks; ++r) {
    if (r == parameters.victim) continue;
    const auto lines = lines_of_rank(job, r);
    const std::string error = line_of(lines, "error ");
    EXPECT_TRUE(error.starts_with("PeerFailed cause=")) << "rank " << r << ": " << error;
    EXPECT_EQ(word_after(error, "culprit="), std::to_string(parameters.victim)) << "rank " << r << ": " << error;
    expect_later_calls_threw_the_same(lines);
  }
  EXPECT_EQ(count(job.err(), fmt::format("first cause: rank {}", parameters.victim)), 1) << job.err();
  expect_no_crash(job);
  expect_nothing_left(job_id(job));
}

INSTANTIATE_TEST_SUITE_P(Faults, DeadOnDemand,
                         ::testing::Values(Job{"InnerRank", sixteen, 1, "small"}, Job{"InnerRankOfLargeCalls", sixteen, 1, "large"},
                                           Job{"InnerRankThatIsReceivedFrom", sixteen, 1, "recv"}, Job{"InnerRankWhileIdle", sixteen, 1, "idle"},
                                           Job{"FirstRank", sixteen, 0, "small"}, Job{"LastRank", sixteen, 15, "small"},
                                           Job{"LastRankThatIsReceivedFrom", sixteen, 15, "recv"}, Job{"OfEight", eight, 3, "small"},
                                           Job{"FirstOfItsHost", four_times_two, 2, "small"}, Job{"SecondOfItsHost", four_times_two, 5, "small"},
                                           Job{"SecondOfItsHostThatIsReceivedFrom", four_times_two, 5, "recv"}),
                         [](const auto& one) { return one.param.name; });

class StoppedOnDemand : public ::testing::TestWithParam<Job> {};

TEST_P(StoppedOnDemand, AllNameAStoppedRankOnDemand) {
  const Job& parameters = GetParam();
  const int ranks = parameters.ranks();
  RunningCommand job(faulty_job(ranks, {"work", parameters.moment, std::to_string(parameters.victim)}, {"--grace", "60"}),
                     variables_of(parameters, {{"TEST_SILENCE_MS", "3000"}}));
  ASSERT_TRUE(are_under_way(job, ranks)) << job.out() << job.err();
  ::kill(pid_of(job, parameters.victim), SIGSTOP);
  std::vector<int> others;
  for (int r = 0; r < ranks; ++r) {
    if (r != parameters.victim) others.push_back(r);
  }
  kill_after_the_others(job, parameters.victim, others);
  EXPECT_EQ(job.wait(seconds(50)), 137) << job.out() << job.err();
  for (int r = 0; r < ranks; ++r) {
    if (r == parameters.victim) continue;
    const auto lines = lines_of_rank(job, r);
    const std::string error = line_of(lines, "error ");
    EXPECT_TRUE(error.starts_with(fmt::format("PeerFailed cause=silent culprit={} ", parameters.victim))) << "rank " << r << ": " << error;
    expect_later_calls_threw_the_same(lines);
  }
  expect_no_crash(job);
  expect_nothing_left(job_id(job));
}

INSTANTIATE_TEST_SUITE_P(Faults, StoppedOnDemand,
                         ::testing::Values(Job{"InnerRank", sixteen, 1, "small"}, Job{"LastRankThatIsReceivedFrom", sixteen, 15, "recv"},
                                           Job{"SecondOfItsHost", four_times_two, 5, "small"}),
                         [](const auto& one) { return one.param.name; });

class GoesOnOnDemand : public ::testing::TestWithParam<Job> {};

TEST_P(GoesOnOnDemand, TheSurvivorsGoOnWithoutADeadRank) {
  const Job& parameters = GetParam();
  const int ranks = parameters.ranks();
  RunningCommand job(faulty_job(ranks, {"survive", std::to_string(parameters.victim)}, {"--grace", "60"}), variables_of(parameters));
  ASSERT_TRUE(are_under_way(job, ranks)) << job.out() << job.err();
  ::kill(pid_of(job, parameters.victim), SIGKILL);
  job.wait(seconds(50));
  std::vector<int> left;
  int sum = 0;
  for (int r = 0; r < ranks; ++r) {
    if (r == parameters.victim) continue;
    left.push_back(r);
    sum += r;
  }
  const std::string expected = fmt::format("{}, sum {}", fmt::join(left, ","), sum);
  for (const int r : left) EXPECT_EQ(line_of(lines_of_rank(job, r), "left "), expected) << "rank " << r << job.err();
  expect_no_crash(job);
  expect_nothing_left(job_id(job));
}

INSTANTIATE_TEST_SUITE_P(Faults, GoesOnOnDemand,
                         ::testing::Values(Job{"InnerRank", sixteen, 1}, Job{"FirstRank", sixteen, 0}, Job{"FirstOfItsHost", four_times_two, 2}),
                         [](const auto& one) { return one.param.name; });

// Nobody is dead: those that wait name those that do not come.
TEST(OnDemand, ARankThatDoesNotComeIsNamed) {
  const Job parameters{"", sixteen};
  RunningCommand job(faulty_job(16, {"missing", "1,12", "all_reduce", "5"}), variables_of(parameters));
  ASSERT_TRUE(job.until([&] { return count(job.out(), "took") == 14; }, seconds(120))) << job.out() << job.err();
  for (const int r : {1, 12}) ::kill(pid_of(job, r), SIGUSR1);
  EXPECT_EQ(job.wait(seconds(50)), 3) << job.out() << job.err();
  for (int r = 0; r < 16; ++r) {
    const std::string error = line_of(lines_of_rank(job, r), "error ");
    EXPECT_TRUE(error.starts_with("Timeout missing=1,12 ")) << "rank " << r << ": " << error;
  }
  expect_no_crash(job);
}

// An exception leaves the scope of a rank.
TEST(OnDemand, ARankThatGivesUpIsNamed) {
  const Job parameters{"", sixteen};
  RunningCommand job(faulty_job(16, {"scope", "idle"}), variables_of(parameters));
  ASSERT_TRUE(are_under_way(job, 16)) << job.out() << job.err();
  ::kill(pid_of(job, 1), SIGUSR1);
  EXPECT_EQ(job.wait(seconds(50)), 5) << job.out() << job.err();
  for (int r = 0; r < 16; ++r) {
    if (r == 1) continue;
    const std::string error = line_of(lines_of_rank(job, r), "error ");
    EXPECT_TRUE(error.starts_with("PeerFailed cause=aborted culprit=1 ")) << "rank " << r << ": " << error;
  }
  expect_no_crash(job);
}

}  // namespace
}  // namespace unisono::testing
