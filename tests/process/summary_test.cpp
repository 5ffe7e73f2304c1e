// `unisono run --summary`: how the job ended, and which ranks waited.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <string>
#include <vector>

#include "launch/job/report.h"
#include "launched_jobs.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

TEST(Summary, TheSummarySaysHowTheJobEnded) {
  RunningCommand failed(run_helper({"-n", "3", "--summary"}, {"late", "1", "dies"}));
  EXPECT_EQ(failed.wait(), 128 + SIGKILL);
  EXPECT_NE(unwrapped(failed.err()).find("the job took "), std::string::npos) << failed.err();
  EXPECT_NE(unwrapped(failed.err()).find("rank 1 ended by SIGKILL"), std::string::npos) << failed.err();
  RunningCommand sound(run_helper({"-n", "3", "--summary"}, {"late", "1", "works"}));
  EXPECT_EQ(sound.wait(), 0) << sound.err();
  EXPECT_NE(unwrapped(sound.err()).find(": ranks 0-2 exited with code 0"), std::string::npos) << sound.err();
  EXPECT_NE(unwrapped(sound.err()).find("rank 1 waited for the others for "), std::string::npos) << sound.err();
  RunningCommand plain(run_plain({"-n", "2", "--summary"}, {}, "/bin/true"));
  EXPECT_EQ(plain.wait(), 0);
  EXPECT_EQ(count(plain.err(), "[unisono]"), 1) << plain.err();
}

TEST(Summary, TheSummaryComparesTheWaitsOfTheRanks) {
  using launcher::RankEnd;
  using launcher::summary_of_waits;
  const auto rank = [](int number, int waited) { return RankEnd{.rank = number, .waited = waited}; };
  EXPECT_EQ(summary_of_waits(std::vector{rank(0, 700), rank(1, 20), rank(2, 400)}),
            "rank 1 waited for the others for 2 % of its time, the least of all, and rank 0 for 70 %, the most");
  EXPECT_EQ(summary_of_waits(std::vector{rank(0, 700), rank(1, 20), rank(2, 15), rank(3, 690)}),
            "ranks 1 and 2 waited for the others for at most 2 % of their time, the least of all, and rank 0 for 70 %, the most");
  EXPECT_EQ(summary_of_waits(std::vector{rank(0, 40), rank(1, 38), rank(2, 41)}),
            "no rank stands out: they waited for each other for 3.8 to 4.1 % of their time");
  EXPECT_EQ(summary_of_waits(std::vector{rank(0, 1), rank(1, 2)}), "no rank waited for the others for more than 1 % of its time");
  EXPECT_EQ(summary_of_waits(std::vector{rank(0, 700), rank(1, -1)}), "") << "there is nothing to compare";
}

TEST(Summary, TheSummaryKnowsTheWaitsOfRanksByTheirRecords) {
  const auto seen = [](int pid, std::uint64_t waited, std::uint64_t calls = 7) {
    recorder::RankSeen record;
    record.pid = pid;
    record.calls = calls;
    record.began = 1000;
    record.now = 2000;
    record.waited = waited;
    return record;
  };
  std::vector<launcher::RankEnd> ends{{.rank = 0, .pid = 10}, {.rank = 1, .pid = 11}, {.rank = 2, .pid = 12}, {.rank = 3, .pid = 13}};
  launcher::add_waits(ends, std::vector{seen(11, 200), seen(10, 700), seen(13, 0, 0)});
  EXPECT_EQ(ends[0].waited, 700);
  EXPECT_EQ(ends[1].waited, 200);
  EXPECT_EQ(ends[2].waited, -1) << "it has no record";
  EXPECT_EQ(ends[3].waited, -1) << "it has called nothing";
}

}  // namespace
}  // namespace unisono::testing
