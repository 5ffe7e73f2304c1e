// UNISONO_LOG=debug: what the library decides when a job begins, one line for each decision.

#include <gtest/gtest.h>

#include <algorithm>

#include "base/processors.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

TEST(Decisions, DecisionsAreToldByEveryRank) {
  RunningCommand job(run_helper({"-n", "3"}, {"join"}), {.environment = {{"UNISONO_LOG", "debug"}}});
  EXPECT_EQ(job.wait(), 0) << job.err();
  const std::string step = base::allowed_processors() < 3 ? "1024" : "256";
  for (int rank = 0; rank < 3; ++rank) {
    const std::string r = std::to_string(rank);
    for (const std::string& line : {
             "debug: rank " + r + " of 3, launched by unisono, met in the store of unisono run",
             std::string("debug: address 127.0.0.1: all ranks share one network"),
             "debug: local rank " + r + " on host 0 of 1 (",
             std::string("debug: engine native (chosen for where the ranks are)"),
             "debug: schedule of group world: shared memory, " + step + " KiB a step for each of 3 ranks",
             "debug: group world: rank " + r + " of 3, engine native, timeout 1800 s; compared: operation, dtype, count, op, root\n",
         }) {
      const auto lines = lines_of(job.err());
      EXPECT_EQ(std::ranges::count_if(
                    lines, [&](const std::string& said) { return said.starts_with(tag(rank)) && (said + "\n").find(line) != std::string::npos; }),
                1)
          << line << "\n"
          << job.err();
    }
  }
  EXPECT_EQ(count(job.err(), "debug: group {0, 1}: rank "), 2) << job.err();
}

TEST(Decisions, DecisionsSayWhoHasAskedForThem) {
  RunningCommand job(run_helper({"-n", "2", "--backend", "tcp"}, {"join"}),
                     {.environment = {{"UNISONO_LOG", "debug"}, {"UNISONO_COMPARE", "shapes"}, {"UNISONO_TIMEOUT", "77"}}});
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(count(job.err(), "debug: engine tcp (as UNISONO_BACKEND=tcp asks)"), 2) << job.err();
  EXPECT_EQ(count(job.err(), "debug: schedule of group world: one level, 2 ranks by the engine at once"), 2) << job.err();
  EXPECT_EQ(count(job.err(), "timeout 77 s; compared: operation, dtype, count, op, root, shape\n"), 4) << job.err();  // of the world and of a group
}

TEST(Decisions, DecisionsAreNotToldUnlessAskedFor) {
  RunningCommand job(run_helper({"-n", "2"}, {"join"}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.err(), "");
}

TEST(Decisions, AnUnknownComparisonIsRefused) {
  RunningCommand job(run_helper({"-n", "2"}, {"join"}), {.environment = {{"UNISONO_COMPARE", "everything"}}});
  EXPECT_EQ(job.wait(), 92);
  EXPECT_GE(count(job.err(), "UNISONO_COMPARE is \"everything\"; it may be \"shapes\", or unset"), 2) << job.err();
}

}  // namespace
}  // namespace unisono::testing
