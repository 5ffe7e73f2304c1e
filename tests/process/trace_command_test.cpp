// `unisono run --trace` and `unisono trace`: what a job has done, and for whom its ranks have waited.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "launched_jobs.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

using Json = nlohmann::json;

std::string text_in(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::size_t traces_in(const std::string& folder) {
  std::size_t traces = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) traces += file.path().extension() == ".trace" ? 1 : 0;
  return traces;
}

Json events_of(const std::string& folder) {
  RunningCommand trace(unisono_command({"trace", folder}));
  EXPECT_EQ(trace.wait(), 0) << trace.err();
  return Json::parse(text_in(folder + "/trace.json")).at("traceEvents");
}

/// Returns the call of a rank that took longest; null: it has made none.
Json longest_of(const Json& events, int rank) {
  Json longest;
  for (const Json& event : events) {
    if (event.at("ph") != "X" || event.at("cat") != "call" || event.at("pid") != rank) continue;
    if (longest.is_null() || event.at("dur").get<double>() > longest.at("dur").get<double>()) longest = event;
  }
  return longest;
}

/// Returns the call of a rank that has failed; null: there is none.
Json failed_of(const Json& events, int rank) {
  for (const Json& event : events) {
    if (event.at("ph") == "X" && event.at("cat") == "call" && event.at("pid") == rank && event.at("args").value("state", "") == "failed")
      return event;
  }
  return {};
}

TEST(Trace, TheTraceNamesTheRankThatWasWaitedFor) {
  const TemporaryFolder folder;
  RunningCommand job(run_helper({"-n", "3", "--trace", folder.path() + "/new"}, {"late", "1", "works"}));
  ASSERT_EQ(job.wait(), 0) << job.err();
  const std::string traces = folder.path() + "/new";
  EXPECT_EQ(traces_in(traces), 3U);
  RunningCommand trace(unisono_command({"trace", traces}));
  ASSERT_EQ(trace.wait(), 0) << trace.err();
  EXPECT_NE(unwrapped(trace.out()).find("3 of 3 ranks on 1 host"), std::string::npos) << trace.out();
  EXPECT_NE(unwrapped(trace.out()).find("rank 1 is the slowest: the others waited "), std::string::npos) << trace.out();
  for (const std::string& line : lines_of(trace.out().substr(trace.out().find('\n')))) {
    if (line.find(traces) != std::string::npos) continue;
    EXPECT_LE(width_of(line), 80U) << line;
  }
  const Json events = Json::parse(text_in(traces + "/trace.json")).at("traceEvents");
  for (const int rank : {0, 2}) {
    const Json longest = longest_of(events, rank);
    ASSERT_FALSE(longest.is_null());
    EXPECT_EQ(longest.at("name"), "all_reduce");
    EXPECT_EQ(longest.at("args").at("waited_for"), 1);
    EXPECT_GE(longest.at("args").at("waited_us").get<double>(), 400'000) << longest.dump();
    EXPECT_EQ(longest.at("args").at("bytes"), 4000);
    EXPECT_TRUE(longest.at("args").at("place").get<std::string>().starts_with("rank_helper.cpp:"));
  }
  EXPECT_NE(text_in(traces + "/trace.html").find("id=\"timeline\""), std::string::npos);
}

// What was under way when a rank was killed, and that the others never got an answer.
TEST(Trace, TheTraceOutlivesARankThatIsKilled) {
  const TemporaryFolder folder;
  RunningCommand job(run_helper({"-n", "3", "--trace", folder.path()}, {"late", "1", "dies"}));
  EXPECT_NE(job.wait(), 0);
  const Json events = events_of(folder.path());
  const Json failed = failed_of(events, 0);
  ASSERT_FALSE(failed.is_null()) << events.dump();
  EXPECT_EQ(failed.at("args").at("waited_for"), 1) << failed.dump();
  EXPECT_FALSE(longest_of(events, 1).is_null());
}

TEST(Trace, TheTraceShowsAJobThatStandsStill) {
  const TemporaryFolder folder;
  RunningCommand job(run_helper({"-n", "3", "--trace", folder.path()}, {"late", "1", "rests"}));
  ASSERT_TRUE(job.until_out_has("ready", 3)) << job.out() << job.err();
  EXPECT_TRUE(eventually([&] {
    const Json longest = longest_of(events_of(folder.path()), 2);
    return !longest.is_null() && longest.at("args").contains("state") && longest.at("args").at("state") == "never ended";
  }));
  RunningCommand status(unisono_command({"status", "--json", job_of(job)}));
  ASSERT_EQ(status.wait(), 0) << status.err();
  EXPECT_EQ(Json::parse(status.out()).at(0).at("ranks").size(), 3U) << "a trace is a record as any other";
}

TEST(Trace, TheVariableAsksForItAsWell) {
  const TemporaryFolder folder;
  RunningCommand job(run_helper({"-n", "2"}, {"late", "1", "works"}), {.environment = {{"UNISONO_TRACE_DIR", folder.path() + "/new"}}});
  ASSERT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(traces_in(folder.path() + "/new"), 2U);
  EXPECT_EQ(longest_of(events_of(folder.path() + "/new"), 0).at("args").at("waited_for"), 1);
}

// The launchers of several hosts have one name for the job.
TEST(Trace, SeveralLaunchersMakeOneTrace) {
  const TemporaryFolder folder;
  const std::string port = std::to_string(free_port());
  const auto launcher = [&](const std::string& node) {
    return run_helper(
        {"--nnodes", "2", "--node-rank", node, "--master-addr", "127.0.0.1", "--master-port", port, "-n", "2", "--trace", folder.path()},
        {"late", "3", "works"});
  };
  RunningCommand first(launcher("0")), second(launcher("1"));
  ASSERT_EQ(first.wait(), 0) << first.err();
  ASSERT_EQ(second.wait(), 0) << second.err();
  const Json events = events_of(folder.path());
  for (const int rank : {0, 1, 2}) EXPECT_EQ(longest_of(events, rank).at("args").at("waited_for"), 3) << rank;
}

TEST(Trace, TheTraceSaysWhatIsWrong) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/file") << "";
  RunningCommand job(run_helper({"-n", "2", "--trace", folder.path() + "/file"}, {"join"}));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_NE(unwrapped(job.err()).find("no trace of rank 0 can be written into"), std::string::npos) << job.err();
  RunningCommand none(unisono_command({"trace", folder.path()}));
  EXPECT_EQ(none.wait(), 2);
  EXPECT_NE(unwrapped(none.err()).find("there is no trace of a rank in"), std::string::npos) << none.err();
}

}  // namespace
}  // namespace unisono::testing
