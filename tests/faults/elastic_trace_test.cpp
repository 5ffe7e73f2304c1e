// The traces of a job that goes on without a lost rank, and takes in the process that replaces it.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "faults.h"

namespace unisono::testing {
namespace {

/// A process of the trace: "rank 1.1".
struct Traced {
  std::set<std::string> groups;  // of its calls
  double first = 0, last = 0;    // when they began
};

std::map<int, Traced> processes_in(const nlohmann::json& events) {
  std::map<int, Traced> processes;
  for (const auto& event : events) {
    if (event.at("ph") != "X" || event.at("cat") != "call") continue;
    const double begun = event.at("ts");
    Traced& process = processes.try_emplace(event.at("pid"), Traced{.groups = {}, .first = begun}).first->second;
    process.groups.insert(event.at("args").at("group"));
    process.last = begun;
  }
  return processes;
}

TEST(ElasticTrace, TheTraceShowsBothProcessesOfARank) {
  const TemporaryFolder folder;
  Variables variables = end_of_training();
  variables["TEST_INIT_BACKEND"] = "native";
  // Rank 1 ends in step 20 of 60.
  RunningCommand job(unisono_command({"run", "-n", "2:4", "--max-restarts", "6", "--trace", folder.path(), "--", FAULT_RANK, "elastic", "60", "4",
                                      "small", "1", "20"}),
                     {.environment = variables});
  EXPECT_EQ(job.wait(longest_training), 0) << job.out() << job.err();
  EXPECT_EQ(count(job.out(), "places 0,2,3,1, "), 4) << job.out() << job.err();
  RunningCommand trace(unisono_command({"trace", folder.path()}));
  ASSERT_EQ(trace.wait(), 0) << trace.err();
  const std::string text = unwrapped(trace.out());
  EXPECT_NE(text.find("4 of 4 ranks on 1 host"), std::string::npos) << text;
  EXPECT_NE(text.find("1 process came while the job ran: rank 1.1"), std::string::npos) << text;

  std::ifstream file(folder.path() + "/trace.json");
  const nlohmann::json read = nlohmann::json::parse(file), &events = read.at("traceEvents");
  std::map<std::string, int> numbers;
  for (const auto& event : events) {
    const std::string name = event.at("name") == "process_name" ? event.at("args").at("name") : "";
    if (!name.empty()) numbers[name.substr(0, name.find(" on "))] = event.at("pid");
  }
  ASSERT_EQ(numbers.size(), 5U) << text;
  std::map<int, Traced> processes = processes_in(events);
  const Traced lost = processes[numbers["rank 1"]], newcomer = processes[numbers["rank 1.1"]];
  EXPECT_TRUE(lost.groups.contains("world"));
  EXPECT_LT(lost.last, newcomer.first);
  EXPECT_EQ(newcomer.groups, (std::set<std::string>{"world of generation 2"}));
  for (const char* name : {"rank 0", "rank 2", "rank 3"}) {
    EXPECT_TRUE(processes[numbers[name]].groups.contains("world")) << name;
    EXPECT_TRUE(processes[numbers[name]].groups.contains("world of generation 2")) << name;
  }
  // Nobody waits for a process in a group that it is no member of.
  for (const auto& event : events) {
    if (event.at("ph") != "X" || event.at("cat") != "call" || !event.at("args").contains("waited_for")) continue;
    const int other = event.at("args").at("waited_for");
    const bool has_grown = event.at("args").at("group") == "world of generation 2";
    EXPECT_NE(other, has_grown ? numbers["rank 1"] : numbers["rank 1.1"]) << event;
    EXPECT_NE(other, event.at("pid").get<int>()) << event;
  }
}

}  // namespace
}  // namespace unisono::testing
