// `unisono status`: what the ranks of a job do, and who is waited for.
#include <gtest/gtest.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
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
  LateJob(int who, const std::string& how, RunningCommand::Options options = {}, const std::string& program = RANK_HELPER)
      : job(run_plain({"-n", "4"}, {"late", std::to_string(who), how}, program), std::move(options)) {
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

TEST(Status, TheStatusNamesTheRankThatIsInTheProgram) {
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
  EXPECT_EQ(late.rank(0).at("bytes"), 4 * 4000) << "with the call under way";
  EXPECT_EQ(late.rank(2).at("bytes"), 3 * 4000);
}

TEST(Status, TheStatusTellsWhatTheProcessesUse) {
  const LateJob late(2, "spins");
  EXPECT_GE(late.rank(2).at("cpu_seconds").get<double>(), 0.25);
  EXPECT_GT(late.rank(2).at("cpu_share").get<double>(), 0);
  const double resident = late.rank(2).at("memory_bytes").get<double>();
  EXPECT_GT(resident, 1 << 20);
  EXPECT_LT(resident, 1 << 30);
}

TEST(Status, TheStatusNamesTheRankThatWaitsElsewhere) {
  LateJob late(3, "waits");
  EXPECT_TRUE(eventually([&] { return (late.status = status_of(late.name)).at("late").at(0).contains("circle"); })) << late.status.dump(1);
  EXPECT_EQ(late.status.at("late").size(), 1U) << "ranks 0 and 3 wait for each other, which is one thing";
  EXPECT_EQ(late.status.at("late").at(0).at("rank"), 3) << "the others are in one call";
  EXPECT_EQ(late.status.at("late").at(0).at("circle"), Json({3, 0}));
  EXPECT_NE(late.first().find("in which ranks 0, 1 and 2 wait"), std::string::npos) << late.first();
  EXPECT_EQ(late.rank(3).at("call").at("operation"), "barrier");
  EXPECT_EQ(late.rank(3).at("call").at("group"), "{0, 3}");
}

TEST(Status, TheStatusShowsARankThatIsStopped) {
  LateJob late(1, "rests");
  ::kill(pid_of(late.job, 1), SIGSTOP);
  EXPECT_TRUE(eventually([&] { return (late.status = status_of(late.name)).at("ranks").at(1).at("state") == "stopped"; }));
  EXPECT_NE(late.first().find("its process is stopped"), std::string::npos) << late.first();
  ::kill(pid_of(late.job, 1), SIGCONT);
}

TEST(Status, TheStatusPrintsTablesAndCalls) {
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

TEST(Status, TheStatusKnowsTheProcessesOfAContainer) {  // they have other numbers here than their records tell
  std::vector<std::string> words{"/usr/bin/env", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc"};
  std::vector<std::string> nothing = words;
  nothing.emplace_back("true");
  RunningCommand trial(nothing);
  if (trial.wait() != 0) GTEST_SKIP() << "skipped: no PID namespace can be made here (root may): " << trial.err();
  std::ranges::copy(run_helper({"-n", "4"}, {"late", "2", "rests"}), std::back_inserter(words));
  RunningCommand job(words);
  ASSERT_TRUE(job.until_out_has("ready", 4)) << job.out() << job.err();
  Json status;
  ASSERT_TRUE(eventually([&] { return !(status = status_of(job_of(job))).is_null() && !status.at("late").empty(); })) << status.dump(1);
  const Json& late = status.at("ranks").at(2);
  EXPECT_EQ(late.at("state"), "program") << status.dump(1);
  EXPECT_GT(late.at("memory_bytes").get<double>(), 1 << 20);
  std::ifstream file(fmt::format("/proc/{}/cmdline", late.at("pid").get<int>()), std::ios::binary);
  const std::string command(std::istreambuf_iterator<char>(file), {});
  EXPECT_TRUE(command.starts_with(RANK_HELPER)) << command;
}

// The launcher keeps the record of a rank that was killed.
TEST(Status, TheStatusShowsARankThatHasEnded) {
  RunningCommand job(run_helper({"-n", "4", "--grace", "60"}, {"late", "2", "ends"}));
  ASSERT_TRUE(job.until_out_has("noticed", 3)) << job.out() << job.err();
  const Json status = status_of(job_of(job), {"--dump"});
  ASSERT_EQ(status.at("ranks").size(), 4U) << status.dump(1);
  const Json& ended = status.at("ranks").at(2);
  EXPECT_EQ(ended.at("state"), "ended");
  EXPECT_EQ(ended.at("pid"), pid_of(job, 2));
  EXPECT_EQ(ended.at("recent").back().at("operation"), "all_reduce");
  EXPECT_EQ(ended.at("recent").back().at("state"), "done");
  EXPECT_EQ(status.at("ranks").at(0).at("state"), "failed");
  EXPECT_NE(status.at("ranks").at(0).at("failure").get<std::string>().find("rank 2"), std::string::npos) << status.dump(1);
}

TEST(Status, TheStatusReadsTheRecordsOfAJobThatHasFailed) {
  const TemporaryFolder folder;
  RunningCommand job(run_helper({"-n", "4"}, {"late", "2", "dies"}), {.environment = {{"UNISONO_RECORD_DIR", folder.path() + "/new"}}});
  EXPECT_NE(job.wait(), 0);
  RunningCommand status(unisono_command({"status", "--from", folder.path() + "/new", "--json", "--dump"}));
  ASSERT_EQ(status.wait(), 0) << status.err();
  const Json jobs = Json::parse(status.out());
  ASSERT_EQ(jobs.size(), 1U) << status.out();
  const Json& ranks = jobs.at(0).at("ranks");
  ASSERT_EQ(ranks.size(), 4U) << status.out();
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    EXPECT_EQ(ranks.at(r).at("rank"), r);
    EXPECT_EQ(ranks.at(r).at("state"), r == 2 ? "ended" : "failed");
    EXPECT_EQ(ranks.at(r).at("recent").back().at("operation"), "all_reduce");
    EXPECT_EQ(ranks.at(r).at("recent").back().at("state"), r == 2 ? "done" : "waiting") << ranks.at(r).dump(1);
    EXPECT_EQ(ranks.at(r).at("recent").back().at("sequence").get<int>(),
              ranks.at(0).at("recent").back().at("sequence").get<int>() - (r == 2 ? 1 : 0));
  }
  RunningCommand table(unisono_command({"status", "--from", folder.path() + "/new"}));
  EXPECT_EQ(table.wait(), 0);
  EXPECT_NE(unwrapped(table.out()).find("4 of 4 ranks have left their records"), std::string::npos) << table.out();
}

TEST(Status, TheStatusWritesNoRecordsUnlessAsked) {
  const TemporaryFolder folder;
  std::string line = "cd " + folder.path() + " && exec";
  for (const std::string& word : run_helper({"-n", "2"}, {"late", "1", "dies"})) line += " '" + word + "'";
  RunningCommand job({"/bin/sh", "-c", line});
  EXPECT_NE(job.wait(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

std::size_t records_in(const std::string& folder) {
  std::size_t records = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) records += file.path().extension() == ".record" ? 1 : 0;
  return records;
}

TEST(Status, AMismatchWritesTheRecords) {
  const TemporaryFolder folder;
  RunningCommand job(run_helper({"-n", "2"}, {"mismatch", "1", "goes-on"}), {.environment = {{"UNISONO_RECORD_DIR", folder.path()}}});
  ASSERT_EQ(job.wait(), 0) << job.err();
  RunningCommand status(unisono_command({"status", "--from", folder.path(), "--json"}));
  ASSERT_EQ(status.wait(), 0) << status.err();
  const Json ranks = Json::parse(status.out()).at(0).at("ranks");
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_EQ(ranks.at(0).at("call").at("bytes"), 2 * sizeof(float));
  EXPECT_EQ(ranks.at(1).at("call").at("bytes"), 3 * sizeof(float));
}

// A record is written while its rank hangs, and the job goes on.
TEST(Status, ASignalWritesTheRecords) {
  const TemporaryFolder folder;
  LateJob late(2, "rests", {.environment = {{"UNISONO_RECORD_DIR", folder.path()}}});
  late.job.send(SIGUSR2);  // which the launcher passes on
  EXPECT_TRUE(eventually([&] { return records_in(folder.path()) == 4; }));
  RunningCommand status(unisono_command({"status", "--from", folder.path(), "--json", late.name}));
  ASSERT_EQ(status.wait(), 0) << status.err();
  const Json job = Json::parse(status.out()).at(0);
  EXPECT_TRUE(job.at("late").at(0).at("text").get<std::string>().starts_with("rank 2 has not come to all_reduce #")) << job.dump(1);
  EXPECT_EQ(status_of(late.name).at("ranks").at(2).at("state"), "program") << "it lives on";
}

TEST(Status, ASignalOfTheProgramStaysItsOwn) {
  const TemporaryFolder folder;
  LateJob late(2, "handles", {.environment = {{"UNISONO_RECORD_DIR", folder.path()}}});
  late.job.send(SIGUSR2);
  EXPECT_TRUE(late.job.until_out_has("caught 12", 4)) << late.job.out();
  EXPECT_EQ(records_in(folder.path()), 0U);
}

TEST(Status, TheStatusRefusesFilesThatAreNoRecords) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/a.0.1.record";
  std::ofstream(file) << std::string(1 << 20, 'x');
  RunningCommand status(unisono_command({"status", "--from", folder.path()}));
  EXPECT_EQ(status.wait(), 2);
  EXPECT_NE(unwrapped(status.err()).find("is not a record of a rank"), std::string::npos) << status.err();
  std::filesystem::remove(file);
  RunningCommand empty(unisono_command({"status", "--from", folder.path()}));
  EXPECT_EQ(empty.wait(), 2);
  EXPECT_NE(unwrapped(empty.err()).find("there are no records of ranks"), std::string::npos) << empty.err();
}

/// Returns what a table says of the processors that rank 2 uses.
std::string cpu_column(const std::string& screens, std::size_t screen) {
  for (const std::string& line : lines_of(screens)) {
    std::istringstream stream(line);
    const std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
    // rank state call number age unit waits % cpu %
    if (words.size() > 9 && words[1] == "program" && screen-- == 0) return words[8];
  }
  return "none";
}

TEST(Status, TheStatusRefreshesOnATerminal) {
  const LateJob late(2, "spins");
  RunningCommand watching(unisono_command({"status", late.name}), on_terminal());
  EXPECT_TRUE(watching.until_out_has("rank 2 has not come", 3)) << watching.out();
  EXPECT_NE(cpu_column(watching.out(), 0), "0") << "since it joined";
  EXPECT_EQ(cpu_column(watching.out(), 1), "0") << "since the screen before";
  watching.type("\003");
  EXPECT_EQ(watching.wait(), 128 + SIGINT);
  RunningCommand once(unisono_command({"status", late.name, "--once"}), on_terminal());
  EXPECT_EQ(once.wait(), 0);
  EXPECT_EQ(count(once.out(), "rank 2 has not come"), 1) << once.out();
}

void write_tool(const std::string& path, const std::string& script) {
  std::ofstream(path) << "#!/bin/sh\n" << script;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

Json stacks_with(const LateJob& late, const std::string& path) {
  RunningCommand status(unisono_command({"status", "--json", "--stacks", late.name}), {.environment = {{"PATH", path}}});
  EXPECT_EQ(status.wait(), 0) << status.err();
  return Json::parse(status.out()).at(0).at("stacks");
}

// Stand-ins of the tools print what the real ones do.
TEST(Status, TheStatusShowsTheStackOfALateRank) {
  const TemporaryFolder folder, nothing;
  const std::string program = folder.path() + "/python3";
  std::filesystem::copy_file(RANK_HELPER, program);
  const LateJob late(2, "rests", {}, program);
  write_tool(folder.path() + "/eu-stack", R"sh(test "$1 $2" = "-1 -p" || exit 1
echo "PID $3 - process"; echo "TID $3:"; echo "#0  0x00007f3a1c0d2a57 pause"; echo "#1  0x000055d0c0a1b2c3 late(int)"; echo "#2  0x000055d0c0a1b2c4"
)sh");
  write_tool(folder.path() + "/py-spy", R"sh(test "$1 $2" = "dump --pid" || exit 1
echo "Process $3: python3 train.py"; echo "Python v3.11.2 (/usr/bin/python3.11)"; echo
echo 'Thread 7 (idle): "loader"'; echo '    wait (threading.py:320)'
echo "Thread $3 (idle): \"MainThread\""; echo '    step (train.py:12)'; echo '    <module> (train.py:30)'
)sh");
  const Json stacks = stacks_with(late, folder.path() + ":/usr/bin:/bin");
  ASSERT_EQ(stacks.size(), 1U) << stacks.dump(1);
  EXPECT_EQ(stacks.at(0).at("rank"), 2);
  EXPECT_EQ(stacks.at(0).at("tool"), "eu-stack");
  EXPECT_EQ(stacks.at(0).at("frames"), Json({"#0  pause", "#1  late(int)", "#2  ?"}));
  EXPECT_EQ(stacks.at(0).at("python"), Json({"step (train.py:12)", "<module> (train.py:30)"}));
  const Json none = stacks_with(late, nothing.path());
  EXPECT_TRUE(none.at(0).at("frames").empty());
  EXPECT_NE(none.at(0).at("problem").get<std::string>().find("neither eu-stack nor gdb is installed"), std::string::npos) << none.dump(1);
}

TEST(Status, TheStatusShowsWhyAToolHasNoStack) {
  const TemporaryFolder folder;
  const LateJob late(2, "rests");
  write_tool(folder.path() + "/eu-stack", "echo 'dwfl_linux_proc_attach pid: Operation not permitted' >&2\nexit 1\n");
  const Json stacks = stacks_with(late, folder.path());
  EXPECT_EQ(stacks.at(0).at("problem"), "eu-stack: dwfl_linux_proc_attach pid: Operation not permitted");
}

TEST(Status, TheStatusShowsTheStackThatARealToolSees) {
  const LateJob late(2, "rests");
  std::string missing;
  for (const auto& [tool, package] : {std::pair<std::string, std::string>{"gdb", "gdb"}, {"eu-stack", "elfutils"}}) {
    if (!std::filesystem::exists("/usr/bin/" + tool)) {
      missing += tool + " is missing (Debian: " + package + "); ";
      continue;
    }
    const TemporaryFolder folder;
    std::filesystem::create_symlink("/usr/bin/" + tool, folder.path() + "/" + tool);
    const Json stacks = stacks_with(late, folder.path());
    if (const std::string problem = stacks.at(0).at("problem"); problem.find("not permitted") != std::string::npos) GTEST_SKIP() << problem;
    EXPECT_EQ(stacks.at(0).at("tool"), tool);
    const std::string frames = stacks.at(0).at("frames").dump();
    for (const char* const part : {"pause", "main"}) EXPECT_NE(frames.find(part), std::string::npos) << stacks.dump(1);
    EXPECT_EQ(frames.find(" in "), std::string::npos) << stacks.dump(1);
    EXPECT_EQ(status_of(late.name).at("ranks").at(2).at("state"), "program") << "it goes on";
  }
  if (!missing.empty()) GTEST_SKIP() << missing << "scripts/get/dependencies --real";
}

TEST(Status, TheStatusSaysWhereThereIsNoJob) {
  RunningCommand none(unisono_command({"status", "no-such-job"}));
  EXPECT_EQ(none.wait(), 1);
  EXPECT_NE(none.err().find("no job no-such-job"), std::string::npos) << none.err();
  RunningCommand empty(unisono_command({"status", "no-such-job", "--json"}));
  EXPECT_EQ(empty.wait(), 0);
  EXPECT_EQ(Json::parse(empty.out()), Json::array());
}

}  // namespace
}  // namespace unisono::testing
