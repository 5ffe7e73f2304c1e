// Beginning and end of contexts among real processes: T1, T3, T4, A10, api rules 3 and 9.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "covers.h"
#include "faults.h"

namespace unisono::testing {
namespace {

using std::chrono::milliseconds;

/// "NAME: ERROR …" lines: every one of these calls was refused in that way.
void expect_refused(const std::vector<std::string>& lines, const std::string& when, const std::string& error) {
  for (const char* call : {"rank", "world_size", "local_rank", "nnodes", "dist_info", "backend", "model_name", "device", "world", "show_config",
                           "all_reduce", "value", "async", "send", "barrier"}) {
    const std::string said = line_of(lines, fmt::format("{} {}: ", when, call));
    EXPECT_TRUE(said.starts_with(error + " ")) << call << ": " << said;
  }
}

/// In a forked child LeakSanitizer looks for the threads of the parent, which it does not have, and says so.
std::string without_word_of_sanitizer(const std::string& err) {
  std::string rest;
  for (const std::string& line : lines_of(err)) {
    if (line.find("was not suspended. False leaks are possible") == std::string::npos) rest += line + "\n";
  }
  return rest;
}

/// A way for ranks to meet, and their output.
class EveryMethod : public ::testing::TestWithParam<std::string> {
 protected:
  void run(int ranks, const std::vector<std::string>& arguments, const Variables& variables = {}) {
    if (GetParam() == "launcher") {
      RunningCommand job(faulty_job(ranks, arguments), {.environment = variables});
      EXPECT_EQ(job.wait(std::chrono::seconds(150)), 0) << job.out() << job.err();
      EXPECT_EQ(job.err(), "");
      for (int r = 0; r < ranks; ++r) lines_.push_back(lines_of_rank(job, r));
      return;
    }
    const auto method = GetParam() == "env" ? DirectJob::Method::env : GetParam() == "tcp" ? DirectJob::Method::tcp : DirectJob::Method::file;
    DirectJob job(method, ranks, arguments, variables);
    for (int r = 0; r < ranks; ++r) {
      EXPECT_EQ(job[r].wait(std::chrono::seconds(150)), 0) << job[r].out() << job[r].err();
      EXPECT_EQ(without_word_of_sanitizer(job[r].err()), "");
      lines_.push_back(lines_of(job[r].out()));
    }
    EXPECT_FALSE(std::filesystem::exists(job.file()));
  }
  bool has_launched_environment() const { return GetParam() == "launcher" || GetParam() == "env"; }
  std::vector<std::vector<std::string>> lines_;
};

TEST_P(EveryMethod, T3SecondInitializeAndCallsAfterFinalizeAreErrors) {
  run(2, {"twice"});
  for (const auto& lines : lines_) {
    EXPECT_TRUE(line_of(lines, "second initialize: ").starts_with("AlreadyInitialized "));
    EXPECT_TRUE(line_of(lines, "second context: ").starts_with("AlreadyInitialized "));
    for (const char* call : {"old group: ", "old group, async: ", "old group, send: "}) {
      EXPECT_TRUE(line_of(lines, call).starts_with("NotInitialized ")) << line_of(lines, call);
    }
    EXPECT_EQ(line_of(lines, "initialized "), "false");
    if (has_launched_environment()) expect_refused(lines, "after finalize", "NotInitialized");
  }
}

// A10, I8
TEST_P(EveryMethod, InitializeAgainAndAgainLeavesNothingBehind) {
  COVERS("K-01");
  run(3, {"cycles", GetParam() == "launcher" ? "100" : "20"});
  for (const auto& lines : lines_) EXPECT_EQ(line_of(lines, "descriptors "), "grew by 0, mappings 0, records 1, threads 1");
}

TEST_P(EveryMethod, T1ForkedChildrenHaveNoPartAndDisturbNobody) {
  run(3, {"fork"});
  for (const auto& lines : lines_) {
    EXPECT_EQ(line_of(lines, "child initialized "), "false");
    expect_refused(lines, "child", "NotInitialized");
    EXPECT_NE(line_of(lines, "child world: ").find("this process was forked from one that is initialized"), std::string::npos);
    EXPECT_TRUE(line_of(lines, "child group: ").starts_with("NotInitialized "));
    EXPECT_TRUE(line_of(lines, "child initialize: ").starts_with("NotInitialized "));
    EXPECT_EQ(line_of(lines, "child finalize: "), "fine");
    EXPECT_EQ(std::count(lines.begin(), lines.end(), "child ended with 0"), 3);
    EXPECT_EQ(line_of(lines, "parent initialized "), "true");
  }
}

TEST_P(EveryMethod, T3AContextAmongTheStaticsEndsWithThem) {
  COVERS("T-12", "K-08");
  run(2, {"at-exit", "static-context"});
  for (const auto& lines : lines_) EXPECT_EQ(line_of(lines, "at exit: "), "no context is left");
}
TEST_P(EveryMethod, T3GroupsAndWorkAmongTheStaticsEndWithThem) { run(2, {"at-exit", "static-group"}); }

INSTANTIATE_TEST_SUITE_P(Faults, EveryMethod, ::testing::Values("launcher", "env", "tcp", "file"), [](const auto& one) { return one.param; });

TEST(Lifetime, K4ExitInsideAContextIsALeavingWithoutFinalize) {
  RunningCommand job(faulty_job(2, {"at-exit", "inside"}));
  EXPECT_EQ(job.wait(), 1) << job.err();
  EXPECT_NE(job.err().find("left without finalize"), std::string::npos) << job.err();
  expect_no_crash(job);
}

TEST(Lifetime, T3WorkMayOutliveFinalize) {
  RunningCommand job(faulty_job(2, {"work-after-finalize"}));
  EXPECT_EQ(job.wait(), 0) << job.out() << job.err();
  // Both give the operation ten seconds. Whoever is done with that first closes its group over it; the other may still see that happen.
  int closed = 0;
  for (int r = 0; r < 2; ++r) {
    const std::string said = line_of(lines_of_rank(job, r), "wait: ");
    if (said.starts_with(fmt::format("Timeout missing={} ", 1 - r))) {
      EXPECT_NE(said.find("was not done when its group was closed"), std::string::npos) << said;
      ++closed;
    } else {
      EXPECT_TRUE(said.starts_with(fmt::format("PeerFailed cause=disconnected culprit={} ", 1 - r))) << said;
    }
  }
  EXPECT_GE(closed, 1);
  expect_no_crash(job);
}

class FinalizeApart : public ::testing::TestWithParam<int> {};

// T4, F14: whoever is early waits for nobody, or no longer than it must, and nobody complains.
TEST_P(FinalizeApart, T4RanksMayFinalizeApartUnderTheLauncher) {
  RunningCommand job(faulty_job(3, {"finalize-apart", std::to_string(GetParam())}));
  ASSERT_TRUE(job.until_out_has("finalized")) << job.out() << job.err();
  ASSERT_TRUE(job.until_out_has("ready", 3));
  const pid_t early = pid_of(job, GetParam());
  EXPECT_TRUE(eventually([&] { return !is_alive(early); }));
  EXPECT_FALSE(job.until([&] { return !job.err().empty() || count(job.out(), "finalized") > 1; }, milliseconds(1000))) << job.err();
  for (int r = 0; r < 3; ++r) {
    if (r != GetParam()) ::kill(pid_of(job, r), SIGUSR1);
  }
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(job.err(), "");
  EXPECT_EQ(count(job.out(), "finalized"), 3);
}

TEST_P(FinalizeApart, T4RanksMayFinalizeApartWithoutALauncher) {
  DirectJob job(DirectJob::Method::env, 3, {"finalize-apart", std::to_string(GetParam())});
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(job[r].until_out_has("ready")) << job[r].err();
  // Rank 0 serves the store, and gives the others ten seconds.
  ASSERT_TRUE(job[GetParam()].until_out_has("finalized"));
  EXPECT_EQ(job[GetParam()].wait(), 0) << job[GetParam()].err();
  for (int r = 0; r < 3; ++r) {
    if (r != GetParam()) job[r].send(SIGUSR1);
  }
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(job[r].wait(), 0) << job[r].err();
    EXPECT_EQ(job[r].err(), "");
    EXPECT_EQ(count(job[r].out(), "finalized"), 1);
  }
}
INSTANTIATE_TEST_SUITE_P(Faults, FinalizeApart, ::testing::Values(0, 1));

// Rule 3
TEST(Lifetime, NothingButInitializeWorksBeforeItInALaunchedProcess) {
  RunningCommand launched(faulty_rank({"before-initialize"}), {.environment = {{"RANK", "0"}, {"WORLD_SIZE", "2"}}});
  EXPECT_EQ(launched.wait(), 0) << launched.err();
  const auto lines = lines_of(launched.out());
  EXPECT_EQ(line_of(lines, "launcher "), "torchrun initialized false");
  expect_refused(lines, "early", "NotInitialized");
  EXPECT_NE(line_of(lines, "early world: ").find("this process was launched as one of several"), std::string::npos);

  RunningCommand job(faulty_job(2, {"before-initialize"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(line_of(lines_of_rank(job, r), "launcher "), "unisono initialized false");
    expect_refused(lines_of_rank(job, r), "early", "NotInitialized");
  }
}

TEST(Lifetime, AProcessThatWasNotLaunchedIsAlone) {
  RunningCommand process(faulty_rank({"alone"}));
  EXPECT_EQ(process.wait(), 0) << process.out() << process.err();
  EXPECT_EQ(process.out(), "rank 0 of 1, local 0 of 1, node 0 of 1, serial, initialized false\ninitialized true\n");
  EXPECT_EQ(process.err(), "");
}

/// Returns the names of this library's local sockets that a process holds.
std::vector<std::string> named_unix_sockets(pid_t pid) {
  std::vector<std::string> names;
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid))) {
    std::error_code gone;
    all += std::filesystem::read_symlink(entry, gone).string() + "\n";
  }
  for (const auto& line : lines_of(contents("/proc/net/unix"))) {
    std::istringstream words(line);
    std::array<std::string, 8> word;  // the last two: inode and name
    for (auto& each : word) words >> each;
    if (word[7].starts_with("@unisono-") && all.find("socket:[" + word[6] + "]") != std::string::npos) names.push_back(word[7]);
  }
  return names;
}

// A10, F9: nothing to connect to and nothing to leak.
TEST(Lifetime, A10AJobOfOneHostHasNoListenerAndNoFiles) {
  RunningCommand job(faulty_job(4, {"work", "small", "1"}));
  ASSERT_TRUE(job.until_out_has("under way", 4)) << job.err();
  EXPECT_EQ(listening_sockets(job.pid()), std::vector<std::string>{});
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(listening_sockets(pid_of(job, r)), std::vector<std::string>{});
    const std::string maps = contents(fmt::format("/proc/{}/maps", pid_of(job, r)));
    EXPECT_NE(maps.find("memfd:unisono"), std::string::npos);
    EXPECT_EQ(maps.find("/dev/shm"), std::string::npos) << maps;
  }
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {  // others may have files there
    EXPECT_EQ(entry.path().string().find(job_id(job)), std::string::npos) << entry.path();
  }
  for (int r = 0; r < 4; ++r) EXPECT_EQ(named_unix_sockets(pid_of(job, r)), std::vector<std::string>{}) << "the hand-over is done";
  ::kill(pid_of(job, 1), SIGKILL);
  EXPECT_EQ(job.wait(std::chrono::seconds(50)), 137);
  expect_nothing_left(job_id(job));
}

}  // namespace
}  // namespace unisono::testing
