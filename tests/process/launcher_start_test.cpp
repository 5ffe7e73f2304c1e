// `unisono run`: what ranks are given, and what is refused.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/processors.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

TEST(LauncherStart, TheLauncherGivesEveryRankItsVariables) {
  RunningCommand job(run_helper({"-n", "3"}, {"variables", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
                                              "MASTER_ADDR", "MASTER_PORT", "UNISONO_JOB_ID", "UNISONO_ATTEMPT", "OMP_NUM_THREADS"}));
  ASSERT_EQ(job.wait(), 0);
  std::set<std::string> ports, ids;
  for (int rank = 0; rank < 3; ++rank) {
    const std::string prefix = tag(rank);
    for (const auto& text : {fmt::format("RANK={}", rank), std::string("WORLD_SIZE=3"), fmt::format("LOCAL_RANK={}", rank),
                             std::string("LOCAL_WORLD_SIZE=3"), std::string("GROUP_RANK=0"), std::string("GROUP_WORLD_SIZE=1"),
                             std::string("MASTER_ADDR=127.0.0.1"), std::string("UNISONO_ATTEMPT=0"), std::string("OMP_NUM_THREADS=1")}) {
      EXPECT_EQ(count(job.out(), prefix + text + "\n"), 1) << prefix << text << "\n" << job.out();
    }
    ports.insert(word_after(job.out(), prefix + "MASTER_PORT="));
    ids.insert(word_after(job.out(), prefix + "UNISONO_JOB_ID="));
  }
  EXPECT_EQ(ports.size(), 1u);
  EXPECT_GT(std::stoi(*ports.begin()), 1023);
  EXPECT_EQ(ids.size(), 1u);
  EXPECT_EQ(ids.begin()->size(), 32u);
  EXPECT_EQ(job.err(), "");
}

TEST(LauncherStart, TheLauncherSetsOpenMpThreadsOnlyWhereUnsetAndSaysSoOnceWhereAsked) {
  RunningCommand quiet(run_helper({"-n", "2"}, {"variables", "OMP_NUM_THREADS"}), {.environment = {{"OMP_NUM_THREADS", ""}}});
  ASSERT_EQ(quiet.wait(), 0);
  EXPECT_EQ(quiet.err(), "");
  RunningCommand job(run_helper({"-n", "2"}, {"variables", "OMP_NUM_THREADS"}), {.environment = {{"OMP_NUM_THREADS", ""}, {"UNISONO_LOG", "info"}}});
  ASSERT_EQ(job.wait(), 0);
  const std::string share = std::to_string(std::max(1, base::allowed_processors() / 2));
  EXPECT_EQ(count(job.out(), "OMP_NUM_THREADS=" + share + "\n"), 2);
  EXPECT_EQ(count(job.err(), "OMP_NUM_THREADS=" + share), 1);

  RunningCommand own(run_helper({"-n", "2"}, {"variables", "OMP_NUM_THREADS"}), {.environment = {{"OMP_NUM_THREADS", "7"}}});
  ASSERT_EQ(own.wait(), 0);
  EXPECT_EQ(count(own.out(), "OMP_NUM_THREADS=7\n"), 2);
  EXPECT_EQ(own.err(), "");
}

TEST(LauncherStart, EveryRankHasAConnectedDescriptorOfItsOwn) {
  RunningCommand job(unisono_command({"run", "-n", "2", "--", "/bin/sh", "-c", "readlink /proc/self/fd/$UNISONO_LAUNCHER_FD"}));
  ASSERT_EQ(job.wait(), 0);
  const std::string first = word_after(job.out(), "[0] "), second = word_after(job.out(), "[1] ");
  EXPECT_TRUE(first.starts_with("socket:[")) << job.out();
  EXPECT_TRUE(second.starts_with("socket:[")) << job.out();
  EXPECT_NE(first, second);
}

TEST(LauncherStart, ADashDashIsOptionalAndArgumentsArriveUntouched) {
  RunningCommand job(unisono_command({"run", "-n1", RANK_HELPER, "arguments", "-n", "--grace", "[1,2]", "", "{}", "--", "a b"}));
  ASSERT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(job.out(), "[0] <-n>\n[0] <--grace>\n[0] <[1,2]>\n[0] <>\n[0] <{}>\n[0] <-->\n[0] <a b>\n");
}

TEST(LauncherStart, TheLauncherLooksProgramsUpAlongPath) {
  RunningCommand job(unisono_command({"run", "-n", "2", "echo", "found"}));
  ASSERT_EQ(job.wait(), 0);
  EXPECT_EQ(count(job.out(), "found"), 2);
}

TEST(LauncherStart, TheLauncherRunsAScriptWithoutInterpreterLine) {
  TemporaryFolder folder;
  const std::string script = folder.path() + "/script";
  ASSERT_EQ(std::system(("printf 'echo script of $RANK, $1\\n' > " + script + " && chmod +x " + script).c_str()), 0);
  RunningCommand job(unisono_command({"run", "-n", "2", script, "word"}));
  ASSERT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(count(job.out(), "[1] script of 1, word\n"), 1) << job.out();
}

TEST(LauncherStart, AMissingProgramIs127) {
  RunningCommand by_path(unisono_command({"run", "-n", "2", "--", "./no-such-program"}));
  EXPECT_EQ(by_path.wait(), 127);
  EXPECT_NE(by_path.err().find("cannot run \"./no-such-program\""), std::string::npos) << by_path.err();
  RunningCommand by_name(unisono_command({"run", "-n", "2", "no-such-program-anywhere", "argument"}));
  EXPECT_EQ(by_name.wait(), 127);
  EXPECT_NE(by_name.err().find("not found along PATH"), std::string::npos) << by_name.err();
}

TEST(LauncherStart, AProgramThatMayNotRunIs126) {
  RunningCommand folder(unisono_command({"run", "/tmp"}));
  EXPECT_EQ(folder.wait(), 126);
  TemporaryFolder place;
  const std::string file = place.path() + "/data";
  ASSERT_EQ(std::system(("echo data > " + file + " && chmod 644 " + file).c_str()), 0);
  RunningCommand data(unisono_command({"run", "-n", "3", file}));
  EXPECT_EQ(data.wait(), 126);
  EXPECT_NE(data.err().find(file), std::string::npos);
}

TEST(LauncherStart, AMissingInterpreterIs127AndNobodyIsLeft) {
  TemporaryFolder folder;
  const std::string script = folder.path() + "/script";
  ASSERT_EQ(std::system(("printf '#!/no/such/interpreter\\n' > " + script + " && chmod +x " + script).c_str()), 0);
  RunningCommand job(unisono_command({"run", "-n", "3", script}));
  EXPECT_EQ(job.wait(), 127);
  EXPECT_NE(job.err().find("interpreter"), std::string::npos) << job.err();
}

class BadFlags : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(BadFlags, BadFlagsAreAUsageLineAndCode2) {
  RunningCommand command(unisono_command(GetParam()));
  EXPECT_EQ(command.wait(), 2);
  EXPECT_EQ(count(command.err(), "usage: unisono"), 1) << command.err();
  EXPECT_EQ(command.out(), "");
}

using Words = std::vector<std::string>;
INSTANTIATE_TEST_SUITE_P(Launcher, BadFlags,
                         ::testing::Values(Words{}, Words{"no-such-command"}, Words{"run"}, Words{"run", "-n", "2"}, Words{"run", "-n", "2", "--"},
                                           Words{"run", "-n", "0", "--", "true"}, Words{"run", "-n", "-1", "--", "true"},
                                           Words{"run", "-n", "four", "--", "true"}, Words{"run", "--no-such-flag", "--", "true"},
                                           Words{"run", "-x", "true"}, Words{"run", "--grace", "-1", "true"},
                                           Words{"run", "--max-restarts", "-1", "true"}, Words{"run", "--bind", "socket", "true"},
                                           Words{"run", "--forward-signal", "NOSUCH", "true"}, Words{"run", "--forward-signal", "KILL", "true"},
                                           Words{"run", "--master-port", "70000", "true"}, Words{"run", "--nnodes", "0", "true"},
                                           Words{"run", "--nnodes", "2", "--node-rank", "2", "--master-addr", "::1", "--master-port", "1", "true"},
                                           Words{"run", "--node-rank", "1", "true"}, Words{"run", "--nnodes", "2", "true"}));

TEST(LauncherStart, AWordThatIsNoCommandIsNamedAndSoAreThoseThatThereAre) {
  const auto said = [](Words words) {
    RunningCommand command(unisono_command(std::move(words)));
    EXPECT_EQ(command.wait(), 2);
    return command.err();
  };
  EXPECT_TRUE(said({"WRONG", "-n", "2"}).starts_with("unisono: unknown command 'WRONG'; there are run, bench, info")) << said({"WRONG", "-n", "2"});
  EXPECT_TRUE(said({"-n", "2"}).starts_with("unisono: unknown option '-n'; options come after a command: run, ")) << said({"-n", "2"});
  EXPECT_TRUE(said({}).starts_with("unisono: a command is missing; there are run, ")) << said({});
}

TEST(LauncherStart, HelpIsNoError) {
  RunningCommand command(unisono_command({"run", "--help"}));
  EXPECT_EQ(command.wait(), 0);
  EXPECT_NE(command.out().find("--max-restarts"), std::string::npos);
}

TEST(LauncherStart, StandardInputGoesToRankZeroOnly) {
  RunningCommand job(run_helper({"-n", "3"}, {"cat"}));
  job.type("first\nsecond\n");
  job.close_input();
  ASSERT_EQ(job.wait(), 0);
  std::string of_rank_zero;
  for (const auto& line : lines_of(job.out())) {
    if (line.starts_with("[0] ")) of_rank_zero += line + "\n";
  }
  EXPECT_EQ(of_rank_zero, "[0] read first\n[0] read second\n[0] end of input\n") << job.out();
  EXPECT_EQ(count(job.out(), "read"), 2);
  EXPECT_EQ(count(job.out(), "end of input"), 3);
}

TEST(LauncherStart, TheLauncherBindsRanksToCoresInTurn) {
  RunningCommand probe({"/bin/grep", "Cpus_allowed_list", "/proc/self/status"});
  ASSERT_EQ(probe.wait(), 0);
  const std::string all = word_after(probe.out(), "Cpus_allowed_list:\t");
  RunningCommand bound(unisono_command({"run", "-n", "2", "--bind", "core", "--", "/bin/grep", "Cpus_allowed_list", "/proc/self/status"}));
  ASSERT_EQ(bound.wait(), 0);
  const std::string first = word_after(bound.out(), "[0] Cpus_allowed_list:\t"), second = word_after(bound.out(), "[1] Cpus_allowed_list:\t");
  EXPECT_EQ(first.find_first_not_of("0123456789"), std::string::npos) << bound.out();
  if (all.find_first_not_of("0123456789") == std::string::npos) GTEST_SKIP() << "skipped: one core only";
  EXPECT_NE(first, second);
  RunningCommand free_to_move(unisono_command({"run", "-n", "2", "--bind", "none", "--", "/bin/grep", "Cpus_allowed_list", "/proc/self/status"}));
  ASSERT_EQ(free_to_move.wait(), 0);
  EXPECT_EQ(word_after(free_to_move.out(), "[1] Cpus_allowed_list:\t"), all);
}

TEST(LauncherStart, MoreRanksThanCoresNeedNoFlagAndMakeNoNoise) {
  RunningCommand job(run_helper({"-n", "16"}, {"exit", "99", "0"}));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.err(), "");
  RunningCommand talkative(run_helper({"-n", "16"}, {"exit", "99", "0"}), {.environment = {{"UNISONO_LOG", "info"}}});
  EXPECT_EQ(talkative.wait(), 0);
  EXPECT_EQ(count(talkative.err(), "16 ranks share"), base::allowed_processors() < 16 ? 1 : 0) << talkative.err();
}

// A10: a job of one host opens no TCP listener, neither in the launcher nor in a rank.
TEST(LauncherStart, A10NobodyListens) {
  RunningCommand job(run_helper({"-n", "2"}, {"rest"}));
  ASSERT_TRUE(job.until_out_has("ready", 2));
  EXPECT_EQ(listening_sockets(job.pid()), std::vector<std::string>());
  for (const pid_t pid : processes_of_job(word_after(job.out(), "[0] ready " + word_after(job.out(), "[0] ready ") + " "))) {
    EXPECT_EQ(listening_sockets(pid), std::vector<std::string>());
  }
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 143);
}

TEST(LauncherStart, MasterPortIsFreeForWhoeverListensWithReuse) {
  RunningCommand job(unisono_command({"run", "-n", "1", "--", "/usr/bin/env", "python3", "-c",
                                      "import os, socket\n"
                                      "s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
                                      "s.bind(('127.0.0.1', int(os.environ['MASTER_PORT']))); s.listen(); print('listens')\n"}));
  const int code = job.wait();
  if (code == 127) GTEST_SKIP() << "skipped: no python3";
  EXPECT_EQ(code, 0) << job.err();
  EXPECT_EQ(count(job.out(), "[0] listens\n"), 1);
}

TEST(LauncherStart, TheLauncherStartsWithStandardStreamsClosed) {
  RunningCommand job({"/bin/sh", "-c", std::string("exec ") + UNISONO_COMMAND + " run -n 2 -- " + RANK_HELPER + " exit 1 6 <&- >&- 2>&-"});
  EXPECT_EQ(job.wait(), 6);
}

}  // namespace
}  // namespace unisono::testing
