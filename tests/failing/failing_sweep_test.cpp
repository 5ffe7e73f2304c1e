// The n-th call of the system fails, until none is left to fail, in every part of what the library does: the outcome is that it works all
// the same, or an error of ours; never the end of the process, a wait without end, or a buffer that is written to afterwards.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "running_command.h"

namespace unisono::testing {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

using Variables = std::map<std::string, std::string>;
using Words = std::vector<std::string>;

struct Failing {
  std::string call;
  int error = 0;
  std::string name() const { return fmt::format("{} {}", call, error == -1 ? "cut short" : ::strerrorname_np(error)); }
};

const std::vector<Failing> threads{{"pthread_create", EAGAIN}};
// Limits of the process and of the system, interruptions, and bytes that come one by one.
const std::vector<Failing> calls{{"accept4", EMFILE},       {"accept4", EINTR},       {"recvmsg", ENOMEM},    {"recvmsg", EINTR},
                                 {"recvmsg", -1},           {"mmap", ENOMEM},         {"pidfd_open", EMFILE}, {"pidfd_open", ENOMEM},
                                 {"sendmsg", EINTR},        {"sendmsg", -1},          {"epoll_ctl", ENOMEM},  {"eventfd", EMFILE},
                                 {"epoll_create1", EMFILE}, {"memfd_create", EMFILE}, {"socket", EMFILE},     {"socketpair", EMFILE}};

constexpr auto hard_deadline = 60s;

/// A program of a scenario, and the exit codes that it may have.
struct Part {
  Words words;
  Variables variables;
  std::vector<int> codes = {0, 3};
};

/// Makes the parts anew for each run, in a folder of its own.
using Scenario = std::function<std::vector<Part>(const std::string& folder)>;

/// `who`: the RANK in which the call fails; "" in all, "-" in what has none, a launcher.
bool survives(const Scenario& scenario, const std::string& who, const Failing& failing, int nth) {
  const TemporaryFolder folder;
  const std::string mark = folder.path() + "/struck";
  std::vector<std::unique_ptr<RunningCommand>> running;
  const std::vector<Part> parts = scenario(folder.path());
  for (const Part& part : parts) {
    Variables variables = part.variables;
    variables.insert({{"FAILING_CALL", fmt::format("{}:{}:{}", failing.call, nth, failing.error)},
                      {"FAILING_CALL_MARK", mark},
                      {"UNISONO_TIMEOUT", "3"},
                      {"UNISONO_LOG", "error"}});
    if (!who.empty()) variables.insert({"FAILING_CALL_RANK", who});
    running.push_back(std::make_unique<RunningCommand>(part.words, RunningCommand::Options{.environment = variables}));
  }
  const std::string what = fmt::format("{} of call {} in {}", failing.name(), nth, who.empty() ? "all" : who);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    RunningCommand& program = *running[i];
    const int code = program.wait(hard_deadline);
    const std::string said = fmt::format("{}: part {}\n{}\n{}", what, i, program.out(), program.err());
    EXPECT_NE(std::ranges::find(parts[i].codes, code), parts[i].codes.end()) << "ended with " << code << " after " << said;
    for (const char* bad : {"SIGABRT", "SIGSEGV", "SIGPIPE", "SIGKILL", "terminate called", "a raw ", "wrong values"}) {
      EXPECT_EQ((program.out() + program.err()).find(bad), std::string::npos) << bad << " after " << said;
    }
  }
  return fs::exists(mark);
}

void sweep(const Scenario& scenario, const Words& places, const std::vector<Failing>& failings) {
  int struck = 0;
  for (const Failing& failing : failings) {
    for (const std::string& who : places) {
      // Each of the first ones; what moves data is called thousands of times.
      for (int nth = 1; !::testing::Test::HasFailure() && survives(scenario, who, failing, nth); nth += std::max(1, nth / 8)) ++struck;
    }
  }
  EXPECT_GT(struck, 0) << "nothing was made to fail";
  ::testing::Test::RecordProperty("failures", struck);
}

Words job_of(int ranks, Words more) {
  Words words{UNISONO_COMMAND, "run", "-n", std::to_string(ranks), "--"};
  words.emplace_back(FAILING_RANK);
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Scenario launched(Words mode, Variables variables = {}) {
  return [=](const std::string&) { return std::vector<Part>{{job_of(2, mode), variables}}; };
}

/// Two ranks of one host and one of another, by connections of ours.
Scenario between_hosts() {
  return [](const std::string&) {
    Words words = job_of(3, {"hosts"});
    // These variables would say that all ranks are on one host.
    words.insert(std::ranges::find(words, "--") + 1, {"env", "-u", "LOCAL_RANK", "-u", "LOCAL_WORLD_SIZE"});
    return std::vector<Part>{{words, {{"UNISONO_BACKEND", "tcp"}}}};
  };
}

/// Ranks that are told their place and find each other there.
std::vector<Part> direct(const std::string& method) {
  std::vector<Part> parts;
  for (int r = 0; r < 2; ++r) parts.push_back({{FAILING_RANK, "job", method, "2", std::to_string(r)}, {{"RANK", std::to_string(r)}}});
  return parts;
}

Scenario over_tcp() {
  return [](const std::string&) { return direct(fmt::format("tcp://127.0.0.1:{}", free_port())); };
}
Scenario over_a_file() {
  return [](const std::string& folder) { return direct("file://" + folder + "/job"); };
}

Scenario alone(const std::string& mode) {
  return [=](const std::string&) { return std::vector<Part>{{{FAILING_RANK, mode}, {}}}; };
}

/// In the launchers, which are not linked with the calls that fail: their code is 0, a rank's, or that of an error, which they tell.
Scenario launchers(int nodes) {
  return [=](const std::string&) {
    std::vector<Part> parts;
    const std::string port = std::to_string(free_port());
    for (int node = 0; node < nodes; ++node) {
      Words words{UNISONO_COMMAND, "run", "-n", "1", "--grace", "2"};
      if (nodes > 1) {
        for (const std::string& word : {std::string("--nnodes"), std::to_string(nodes), std::string("--node-rank"), std::to_string(node),
                                        std::string("--master-addr"), std::string("127.0.0.1"), std::string("--master-port"), port}) {
          words.push_back(word);
        }
      }
      for (const char* word : {"--", FAILING_RANK, "job"}) words.emplace_back(word);
      parts.push_back({words, {{"LD_PRELOAD", FAILING_CALLS}}, {0, 1, 2, 3}});
    }
    return parts;
  };
}

TEST(FailingThread, EveryFailingThreadUnderALauncherIsSurvivedOrAnError) { sweep(launched({"job"}), {"0", "1"}, threads); }
TEST(FailingThread, EveryFailingThreadOverTcpIsSurvivedOrAnError) { sweep(over_tcp(), {"0", "1"}, threads); }
TEST(FailingThread, EveryFailingThreadOverAFileIsSurvivedOrAnError) { sweep(over_a_file(), {"0", "1"}, threads); }
TEST(FailingThread, EveryFailingThreadOnTheEngineTcpIsSurvivedOrAnError) {
  sweep(launched({"job"}, {{"UNISONO_BACKEND", "tcp"}}), {"0", "1"}, threads);
}
TEST(FailingThread, EveryFailingThreadBetweenHostsIsSurvivedOrAnError) { sweep(between_hosts(), {"0", "2"}, threads); }
TEST(FailingThread, EveryFailingThreadOnTheEngineGlooIsSurvivedOrAnError) {
  if (!fs::exists(GLOO_PLUGIN)) GTEST_SKIP() << "skipped: this build has no plug-in gloo";
  sweep(launched({"job"}, {{"UNISONO_BACKEND", "gloo"}, {"UNISONO_PLUGIN_PATH", fs::path(GLOO_PLUGIN).parent_path()}}), {"0", "1"}, threads);
}
TEST(FailingThread, EveryFailingThreadOfRanksThatAreThreadsIsSurvivedOrAnError) { sweep(alone("threads"), {""}, threads); }
TEST(FailingThread, EveryFailingThreadOfRanksThatAreSpawnedIsSurvivedOrAnError) { sweep(alone("spawn"), {""}, threads); }
TEST(FailingThread, EveryFailingThreadOfAStoreIsSurvivedOrAnError) { sweep(alone("store"), {""}, threads); }
TEST(FailingThread, EveryFailingThreadOfALauncherIsSurvivedOrAnError) { sweep(launchers(1), {"-"}, threads); }
TEST(FailingThread, EveryFailingThreadOfTheLaunchersOfTwoHostsIsSurvivedOrAnError) { sweep(launchers(2), {"-"}, threads); }

TEST(FailingCall, EveryFailingCallUnderALauncherIsSurvivedOrAnError) { sweep(launched({"job"}), {"0", "1"}, calls); }
TEST(FailingCall, EveryFailingCallOverTcpIsSurvivedOrAnError) { sweep(over_tcp(), {"0", "1"}, calls); }
TEST(FailingCall, EveryFailingCallOverAFileIsSurvivedOrAnError) { sweep(over_a_file(), {"0", "1"}, calls); }
TEST(FailingCall, EveryFailingCallBetweenHostsIsSurvivedOrAnError) { sweep(between_hosts(), {"0", "2"}, calls); }
TEST(FailingCall, EveryFailingCallOfRanksThatAreThreadsIsSurvivedOrAnError) { sweep(alone("threads"), {""}, calls); }
TEST(FailingCall, EveryFailingCallOfRanksThatAreSpawnedIsSurvivedOrAnError) { sweep(alone("spawn"), {""}, calls); }
TEST(FailingCall, EveryFailingCallOfAStoreIsSurvivedOrAnError) { sweep(alone("store"), {""}, calls); }
TEST(FailingCall, EveryFailingCallOfALauncherIsSurvivedOrAnError) { sweep(launchers(1), {"-"}, calls); }
TEST(FailingCall, EveryFailingCallOfTheLaunchersOfTwoHostsIsSurvivedOrAnError) { sweep(launchers(2), {"-"}, calls); }

}  // namespace
}  // namespace unisono::testing
