// Controllers whose workers are processes: under a launcher, started by the controller itself, and what becomes of them if one dies.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "running_command.h"

namespace unisono::testing {
namespace {

using namespace std::chrono_literals;

/// `unisono run FLAGS -- controller_helper ARGUMENTS`.
std::vector<std::string> run_controller(std::vector<std::string> flags, const std::vector<std::string>& arguments) {
  std::vector<std::string> command{"run"};
  command.insert(command.end(), flags.begin(), flags.end());
  command.insert(command.end(), {"--", CONTROLLER_HELPER});
  command.insert(command.end(), arguments.begin(), arguments.end());
  return unisono_command(command);
}

void expect_has(const std::string& output, const std::string& text) {
  EXPECT_NE(output.find(text), std::string::npos) << text << "\nnot in\n" << output;
}

void expect_work_of(int workers, const std::string& out) {
  for (int i = 0; i < workers; ++i) expect_has(out, fmt::format("place {}/{}/{}", i, workers, i));
  expect_has(out, fmt::format("sum {}", workers * workers));
  if (workers > 1) expect_has(out, "pairs 4");
  expect_has(out, fmt::format("everyone {}", 10 * workers + 1));
  expect_has(out, "large 3.0");
  expect_has(out, "done");
}

/// The processes of "ready CONTROLLER WORKER…".
std::vector<pid_t> processes_in(const std::string& out) {
  std::vector<pid_t> all;
  std::string rest = out.substr(out.find("ready ") + 6);
  rest = rest.substr(0, rest.find('\n'));
  for (std::size_t at = 0; at < rest.size();) {
    std::size_t length = 0;
    all.push_back(std::stoi(rest.substr(at), &length));
    at += length + 1;
  }
  return all;
}
void expect_all_gone(const std::vector<pid_t>& processes) {
  for (const pid_t pid : processes) EXPECT_TRUE(eventually([&] { return !is_alive(pid); })) << pid;
}

TEST(ControllerProcesses, TheRanksOfAJobServe) {
  RunningCommand job(run_controller({"-n", "4"}, {"work"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  expect_work_of(3, job.out());
  EXPECT_EQ(count(job.out(), "[0] done"), 1);
}

TEST(ControllerProcesses, AControllerStartsItsWorkers) {
  RunningCommand job({CONTROLLER_HELPER, "work", "2"});
  EXPECT_EQ(job.wait(), 0) << job.err();
  expect_work_of(2, job.out());
  EXPECT_EQ(count(job.out(), "done"), 1) << "a worker came back";
  EXPECT_EQ(job.err(), "");
}

TEST(ControllerProcesses, WorkersAreOnTwoHosts) {
  RunningCommand job(run_controller({"--hosts", "one.invalid:2,two.invalid:2", "--ssh", "env NAME={host}", "--master-addr", "127.0.0.1"}, {"work"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  expect_work_of(3, job.out());
}

TEST(ControllerProcesses, CallsTravelOverTcp) {
  RunningCommand job(run_controller({"-n", "3"}, {"work"}), {.environment = {{"UNISONO_BACKEND", "tcp"}}});
  EXPECT_EQ(job.wait(), 0) << job.err();
  expect_work_of(2, job.out());
}

TEST(ControllerProcesses, ADeadWorkerIsAnErrorOfWhatDependsOnItAlone) {
  for (const bool is_launched : {true, false}) {
    RunningCommand job(is_launched ? run_controller({"-n", "3"}, {"lose"}) : std::vector<std::string>{CONTROLLER_HELPER, "lose", "2"});
    EXPECT_EQ(job.wait(), is_launched ? 128 + SIGKILL : 0) << job.err();
    expect_has(job.out(), "dependent: PeerFailed 1 killed");
    expect_has(job.out(), "lost: PeerFailed 1 killed");
    expect_has(job.out(), "worker 1: add(int32, int32): the worker is lost: ");
    expect_has(job.out(), "[culprit: worker 1 on ");
    expect_has(job.out(), "object: PeerFailed 1 killed");
    expect_has(job.out(), "one of all 7");
    expect_has(job.out(), "all: PeerFailed 1 killed");
    expect_has(job.out(), "other 3 1");
    expect_has(job.out(), "done");
    if (is_launched) expect_has(job.err(), "rank 2 ended by SIGKILL; the controller goes on without it");
  }
}

TEST(ControllerProcesses, ADeadWorkerOfAnotherHostEndsNothingElse) {
  RunningCommand job(run_controller({"--hosts", "one.invalid:2,two.invalid:2", "--ssh", "env NAME={host}", "--master-addr", "127.0.0.1"}, {"lose"}));
  EXPECT_EQ(job.wait(), 128 + SIGKILL) << job.err();
  expect_has(job.out(), "lost: PeerFailed 2 killed");
  expect_has(job.out(), "one of all 7");
  expect_has(job.out(), "done");
}

TEST(ControllerProcesses, AWorkerThatExitsIsLost) {
  RunningCommand job({CONTROLLER_HELPER, "exit", "1"});
  EXPECT_EQ(job.wait(), 0) << job.err();
  expect_has(job.out(), "left: PeerFailed 0 exited");
}

TEST(ControllerProcesses, ALauncherReplacesALostWorker) {
  RunningCommand job(run_controller({"-n", "2:4", "--max-restarts", "3"}, {"replace", "1"}));
  EXPECT_EQ(job.wait(), 0) << job.err() << job.out();
  expect_has(job.out(), "lost: PeerFailed 1");
  expect_has(job.out(), "worker 0 stayed");
  expect_has(job.out(), "worker 1 is new");
  expect_has(job.out(), "worker 2 stayed");
  for (int i = 0; i < 3; ++i) expect_has(job.out(), fmt::format("place {}/3/{}", i, i));
  expect_has(job.out(), "sum 9");
  expect_has(job.out(), "object: Error 1: call on group workers");
  expect_has(job.out(), "worker 1 was replaced by another process");
  expect_has(job.out(), "kept 1");
  expect_has(job.out(), "new 5");
  expect_has(job.out(), "done");
}

TEST(ControllerProcesses, AWorkerThatIsLostBesideTheReplacedOneDoesNoHarm) {
  RunningCommand job(run_controller({"-n", "2:4", "--max-restarts", "3"}, {"replace_one_of_two"}));
  EXPECT_EQ(job.wait(), 0) << job.err() << job.out();
  expect_has(job.out(), "kept 1");
  expect_has(job.out(), "done");
}

TEST(ControllerProcesses, AnErrorOfACollectiveNamesTheWorkerByItsNumber) {
  RunningCommand job(run_controller({"-n", "2:4", "--max-restarts", "3"}, {"blame"}));
  job.wait();
  for (const std::string when : {"first", "second"}) {
    for (const std::string who : {"0", "2"}) {
      expect_has(job.out(), fmt::format("{} {} workers: PeerFailed 1 ", when, who));
      expect_has(job.out(), fmt::format("{} {} everyone: PeerFailed 1 ", when, who));
    }
  }
  expect_has(job.out(), "group: PeerFailed 1 ");
  expect_has(job.out(), "first rank 2");
  expect_has(job.out(), "second rank 3");
  expect_has(job.out(), "done");
}

TEST(ControllerProcesses, WorkersEndWithAControllerThatIsKilled) {
  RunningCommand alone({CONTROLLER_HELPER, "hold", "2"});
  ASSERT_TRUE(alone.until_out_has("ready ")) << alone.err();
  const auto processes = processes_in(alone.out());
  EXPECT_EQ(processes.size(), 3u);
  ::kill(processes[0], SIGKILL);
  expect_all_gone(processes);

  RunningCommand launched(run_controller({"-n", "3"}, {"hold"}));
  ASSERT_TRUE(launched.until_out_has("ready ")) << launched.err();
  const auto ranks = processes_in(launched.out());
  ::kill(ranks[0], SIGKILL);
  EXPECT_EQ(launched.wait(), 128 + SIGKILL);
  expect_has(launched.err(), "this worker ends, because its controller is lost: ");
  expect_has(launched.err(), "first cause: rank 0");
  expect_all_gone(ranks);
}

TEST(ControllerProcesses, CtrlCEndsAControllerAndItsWorkers) {
  for (const std::string how : {"hold", "busy"}) {
    RunningCommand alone({CONTROLLER_HELPER, how, "2"});
    ASSERT_TRUE(alone.until_out_has("ready ")) << alone.err();
    const auto processes = processes_in(alone.out());
    ::kill(processes[0], SIGINT);
    expect_all_gone(processes);
    EXPECT_EQ(alone.wait(), 128 + SIGINT);
  }
  RunningCommand launched(run_controller({"-n", "3"}, {"busy"}));
  ASSERT_TRUE(launched.until_out_has("ready ")) << launched.err();
  const auto ranks = processes_in(launched.out());
  launched.send(SIGINT);
  EXPECT_EQ(launched.wait(), 128 + SIGINT);
  expect_all_gone(ranks);
}

TEST(ControllerProcesses, AnExceptionOfTheControllerEndsTheWorkers) {
  RunningCommand caught({CONTROLLER_HELPER, "caught", "2"});
  EXPECT_EQ(caught.wait(), 0) << caught.err();
  expect_has(caught.out(), "caught the program has failed");
  expect_has(caught.err(), "this worker ends, because its controller is lost: ");
  expect_has(caught.err(), "an exception left the scope of its Controller");

  RunningCommand launched(run_controller({"-n", "3"}, {"throw"}));
  EXPECT_EQ(launched.wait(), 128 + SIGABRT);
  expect_has(launched.err(), "the program has failed");
  expect_has(launched.err(), "first cause: rank 0");
}

TEST(ControllerProcesses, DifferentFunctionsAreNamedWhenTheProcessesMeet) {
  RunningCommand one_side(run_controller({"-n", "3"}, {"differ"}));
  EXPECT_EQ(one_side.wait(), 0) << "every rank has caught the error: " << one_side.out();
  EXPECT_EQ(count(one_side.out(), "the function only_there(int32) -> int32 is registered in the controller, and not on worker 0 ("), 3)
      << one_side.out();
  RunningCommand signature(run_controller({"-n", "2"}, {"differ_in_signature"}));
  EXPECT_EQ(signature.wait(), 0) << signature.out();
  EXPECT_EQ(count(signature.out(), "the function differs is (int32) -> int32 in the controller, and (int32) -> int64 on worker 0 ("), 2)
      << signature.out();
}

TEST(ControllerProcesses, AFunctionThatAWorkerLacksFailsItsCallAlone) {
  RunningCommand job(run_controller({"-n", "2"}, {"unknown"}));
  EXPECT_EQ(job.wait(), 0) << job.err();
  expect_has(job.out(), "unknown: Error 0: ");
  expect_has(job.out(), "worker 0: only_here(): this worker has no function of that name and signature");
  expect_has(job.out(), "known 3");
}

TEST(ControllerProcesses, AFunctionThatIsRegisteredTwiceIsNamed) {
  RunningCommand job({CONTROLLER_HELPER, "twice"});
  EXPECT_EQ(job.wait(), 0) << job.err();
  expect_has(job.out(), "the function add(int32, int32) -> int32 is registered twice");
}

TEST(ControllerProcesses, AProcessThatIsAloneIsToldWhatToDo) {
  RunningCommand job({CONTROLLER_HELPER, "alone"});
  EXPECT_EQ(job.wait(), 0) << job.err();
  expect_has(job.out(), "unisono run -n 5");
}

TEST(ControllerProcesses, ATraceHasTheCallsOfWorkers) {
  const TemporaryFolder folder;
  RunningCommand job(run_controller({"-n", "3", "--trace", folder.path()}, {"work"}));
  ASSERT_EQ(job.wait(), 0) << job.err();
  RunningCommand trace(unisono_command({"trace", folder.path()}));
  EXPECT_EQ(trace.wait(), 0) << trace.err();
  expect_has(trace.out(), "together ");
  expect_has(trace.out(), "sum_with_controller ");
}

TEST(ControllerProcesses, StatusShowsTheCallThatAWorkerIsIn) {
  RunningCommand job(run_controller({"-n", "2"}, {"busy"}));
  ASSERT_TRUE(job.until_out_has("ready ")) << job.err();
  EXPECT_TRUE(eventually([] {
    RunningCommand status(unisono_command({"status"}));
    status.wait();
    return status.out().find("rest #") != std::string::npos;
  }));
  job.send(SIGINT);
  job.wait();
}

}  // namespace
}  // namespace unisono::testing
