// `unisono status`: what the ranks of a job do, and who is waited for.
#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launched_jobs.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

using Json = nlohmann::json;

Json status_of(const std::string& job, std::vector<std::string> more = {}) {
  std::vector<std::string> words{"status", "--json", job};
  words.insert(words.end(), more.begin(), more.end());
  RunningCommand status(unisono_command(words));
  EXPECT_EQ(status.wait(), 0) << status.err();
  const Json jobs = Json::parse(status.out());
  return jobs.size() == 1 ? jobs.front() : Json();
}

/// A job in which a rank is late, and its status once that is seen.
struct LateJob {
  LateJob(int who, const std::string& how) : job(run_helper({"-n", "4", "--timeout", "60"}, {"late", std::to_string(who), how})) {
    EXPECT_TRUE(job.until_out_has("ready", 4)) << job.out() << job.err();
    name = job_of(job);
    EXPECT_TRUE(eventually([&] { return !(status = status_of(name)).is_null() && !status.at("late").empty(); })) << status.dump(1);
  }
  const Json& rank(int number) const { return status.at("ranks").at(static_cast<std::size_t>(number)); }
  std::string first() const { return status.at("late").empty() ? "" : status.at("late").at(0).at("text").get<std::string>(); }

  RunningCommand job;
  std::string name;
  Json status;
};

TEST(Status, NamesTheRankThatIsInTheProgram) {
  const LateJob late(2, "rests");
  EXPECT_EQ(late.status.at("size"), 4);
  EXPECT_EQ(late.status.at("late").size(), 1U) << late.status.dump(1);
  EXPECT_EQ(late.status.at("late").at(0).at("rank"), 2);
  EXPECT_TRUE(late.first().starts_with("rank 2 has not come to all_reduce #")) << late.first();
  EXPECT_NE(late.first().find("it is in the program"), std::string::npos) << late.first();
  EXPECT_NE(late.first().find("rank_helper.cpp:"), std::string::npos) << late.first();
  EXPECT_EQ(late.rank(2).at("state"), "program");
  EXPECT_EQ(late.rank(0).at("state"), "waiting");
  EXPECT_EQ(late.rank(0).at("call").at("waited_for"), 2);
  EXPECT_GT(late.rank(1).at("memory_bytes").get<double>(), 0);
}

TEST(Status, NamesTheRankThatWaitsElsewhere) {
  const LateJob late(3, "waits");
  EXPECT_NE(late.first().find("rank 3"), std::string::npos) << late.status.dump(1);
  EXPECT_EQ(late.rank(3).at("call").at("operation"), "barrier");
  EXPECT_EQ(late.rank(3).at("call").at("group"), "{0, 3}");
  EXPECT_EQ(late.status.at("late").size(), 2U) << "ranks 0 and 3 wait for each other";
}

TEST(Status, ShowsARankThatIsStopped) {
  LateJob late(1, "rests");
  ::kill(pid_of(late.job, 1), SIGSTOP);
  EXPECT_TRUE(eventually([&] { return (late.status = status_of(late.name)).at("ranks").at(1).at("state") == "stopped"; }));
  EXPECT_NE(late.first().find("its process is stopped"), std::string::npos) << late.first();
  ::kill(pid_of(late.job, 1), SIGCONT);
}

TEST(Status, PrintsTablesAndCalls) {
  const LateJob late(2, "rests");
  RunningCommand table(unisono_command({"status", late.name, "--dump"}));
  EXPECT_EQ(table.wait(), 0) << table.err();
  EXPECT_NE(unwrapped(table.out()).find("rank 2 has not come to all_reduce"), std::string::npos) << table.out();
  EXPECT_EQ(count(table.out(), "\n     2  program"), 1) << table.out();
  EXPECT_NE(table.out().find("rank 2, the last "), std::string::npos) << table.out();
  EXPECT_GE(count(table.out(), "all_reduce #"), 4 * 3) << table.out();
  for (const std::string& line : lines_of(table.out().substr(0, table.out().find("rank 0, the last")))) EXPECT_LE(width_of(line), 80U) << line;
  const Json with_calls = status_of(late.name, {"--dump"});
  EXPECT_GE(with_calls.at("ranks").at(0).at("recent").size(), 4U);
}

TEST(Status, SaysWhereThereIsNoJob) {
  RunningCommand none(unisono_command({"status", "no-such-job"}));
  EXPECT_EQ(none.wait(), 1);
  EXPECT_NE(none.err().find("no job no-such-job"), std::string::npos) << none.err();
  RunningCommand empty(unisono_command({"status", "no-such-job", "--json"}));
  EXPECT_EQ(empty.wait(), 0);
  EXPECT_EQ(Json::parse(empty.out()), Json::array());
}

}  // namespace
}  // namespace unisono::testing
