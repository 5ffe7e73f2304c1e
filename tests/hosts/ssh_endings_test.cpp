// How a job that `unisono run --hosts` has started over ssh ends, and what it leaves behind: nothing.

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "ssh_hosts.h"
#include "job.h"

namespace unisono::testing {
namespace {

/// A job whose ranks wait for ever, each with a process of its own that does not notice when they end. Its mark is in their command lines.
struct Waiting {
  std::string mark;
  std::unique_ptr<RunningCommand> job;
};

Waiting start_waiting(const SshHosts& all, const std::string& hosts, int ranks, const std::vector<std::string>& flags = {}) {
  Waiting waiting;
  waiting.mark = "mark-of-" + all.folder().substr(all.folder().size() - 6);
  const std::string script = "sh -c 'sleep 1000; : " + waiting.mark + "' & echo up; wait";
  waiting.job = all.start(0, all.run_words(hosts, {"sh", "-c", script}, flags));
  EXPECT_TRUE(waiting.job->until_out_has("up\n", ranks)) << waiting.job->err();
  EXPECT_GE(all.processes_with(waiting.mark), 2 * ranks);
  return waiting;
}

/// Nothing is left of the job: neither ranks, nor what they have started, nor launchers, nor ssh.
void expect_nothing_left(const SshHosts& all, const Waiting& waiting) {
  EXPECT_TRUE(eventually([&] { return all.processes_with(waiting.mark) == 0; })) << all.processes_with(waiting.mark) << " processes are left";
}

/// The number of the process on the hosts that was started first of those whose command line has this text.
pid_t process_with(const SshHosts& all, int host, const std::string& text) {
  const std::string found = all.hosts().run(host, {"pgrep", "-f", "-o", text});
  return std::stoi(found);
}

/// An ssh that notices after three seconds that the other host is silent.
std::string quick_to_notice(const SshHosts& all) { return all.ssh() + " -o ServerAliveInterval=1 -o ServerAliveCountMax=2"; }

TEST(JobBySsh, AJobNamesTheFirstCauseOnceAndEndsWithItsCode) {  // K1, B20, F21
  MAKE_SSH_HOSTS(all, 3);
  const auto killed =
      all.start(0, all.run_words("host0:1,host1:2,host2:1", {"sh", "-c", "if [ $RANK = 2 ]; then echo it was me >&2; kill -9 $$; fi; sleep 100"}));
  EXPECT_EQ(killed->wait(), 137) << killed->err();
  EXPECT_EQ(count(killed->err(), "first cause: rank 2 (pid "), 1) << killed->err();
  EXPECT_EQ(count(killed->err(), " on host1) ended by SIGKILL"), 1) << killed->err();
  EXPECT_EQ(count(killed->err(), "[unisono] the others: ranks 0, 1, 3 ended by the launcher (SIGTERM)\n"), 1) << killed->err();
  EXPECT_EQ(count(killed->err(), "have 3 s to end") + count(killed->err(), "has 3 s to end") + count(killed->err(), " 2 s to end"), 1)
      << killed->err();
  EXPECT_EQ(count(killed->err(), "[2] it was me\n"), 1) << killed->err();
  EXPECT_TRUE(killed->err().ends_with("ended by SIGKILL\n")) << "the most important line comes last: " << killed->err();
  const auto failed = all.start(0, all.run_words("host0:1,host1:1", {"sh", "-c", "[ $RANK = 1 ] && exit 7; exec sleep 100"}));
  EXPECT_EQ(failed->wait(), 7) << failed->err();
}

TEST(JobBySsh, AJobEndsByCtrlC) {  // K8
  MAKE_SSH_HOSTS(all, 2);
  for (const int signal : {SIGINT, SIGTERM}) {
    const Waiting waiting = start_waiting(all, "host0:1,host1:1", 2);
    waiting.job->send(signal);
    EXPECT_EQ(waiting.job->wait(), 128 + signal) << waiting.job->err();
    EXPECT_EQ(count(waiting.job->err(), ": handed on to all ranks; a second one kills them"), 1) << waiting.job->err();
    expect_nothing_left(all, waiting);
  }
}

TEST(JobBySsh, AJobEndsByASecondCtrlCWhereRanksTakeNoNotice) {
  MAKE_SSH_HOSTS(all, 2);
  const auto job =
      all.start(0, all.run_words("host0:1,host1:1", {"sh", "-c", "trap '' INT TERM; echo up; while :; do sleep 0.1; done"}, {"--grace", "1000"}));
  ASSERT_TRUE(job->until_out_has("up\n", 2)) << job->err();
  job->send(SIGINT);
  ASSERT_TRUE(job->until_err_has("a second one kills them")) << job->err();
  EXPECT_EQ(job->wait(std::chrono::milliseconds(1100)), -1) << "at once it would be the same request";
  job->send(SIGINT);
  EXPECT_EQ(job->wait(), 130) << job->err();
}

TEST(JobBySsh, AJobHandsSignalsOn) {
  MAKE_SSH_HOSTS(all, 2);
  const auto job =
      all.start(0, all.run_words("host0:1,host1:1", {"sh", "-c", "trap 'echo got it; exit 0' USR1; echo up; while :; do sleep 0.1; done"}));
  ASSERT_TRUE(job->until_out_has("up\n", 2)) << job->err();
  job->send(SIGUSR1);
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(count(job->out(), "got it\n"), 2) << job->out();
}

TEST(JobBySsh, AJobEndsWithTheCommandThatHasStartedIt) {  // K7, B3
  MAKE_SSH_HOSTS(all, 2);
  const Waiting waiting = start_waiting(all, "host0:1,host1:1", 2);
  waiting.job->send(SIGKILL);
  EXPECT_EQ(waiting.job->wait(), 137);
  expect_nothing_left(all, waiting);
}

TEST(JobBySsh, AJobEndsWithALauncherOnAnotherHost) {  // K7
  MAKE_SSH_HOSTS(all, 2);
  const Waiting waiting = start_waiting(all, "host0:1,host1:1", 2);
  ::kill(process_with(all, 1, "__launch .*--node-rank 1 .*" + waiting.mark), SIGKILL);
  EXPECT_EQ(waiting.job->wait(), 1) << waiting.job->err();
  EXPECT_EQ(count(waiting.job->err(), "first cause: the launcher on host host1 was ended by SIGKILL"), 1) << waiting.job->err();
  expect_nothing_left(all, waiting);
}

TEST(JobBySsh, AJobEndsWithTheAgentOfAHost) {
  MAKE_SSH_HOSTS(all, 2);
  const Waiting waiting = start_waiting(all, "host0:1,host1:1", 2);
  // The pattern is not what it finds, and this host's own agent is in another network.
  all.hosts().run(1, {"sh", "-c", "kill -9 $(pgrep -f -o --ns $$ --nslist net 'unisono [_]_host')"});
  EXPECT_EQ(waiting.job->wait(), 1) << waiting.job->err();
  EXPECT_EQ(count(waiting.job->err(), "first cause: host host1 is lost: ssh ended with exit code"), 1) << waiting.job->err();
  expect_nothing_left(all, waiting);
}

TEST(JobBySsh, AJobEndsWithTheConnectionToAHost) {  // K7
  MAKE_SSH_HOSTS(all, 2);
  const Waiting waiting = start_waiting(all, "host0:1,host1:1", 2);
  ::kill(process_with(all, 0, "^ssh -F " + all.folder() + ".* host1 "), SIGKILL);
  EXPECT_EQ(waiting.job->wait(), 1) << waiting.job->err();
  EXPECT_EQ(count(waiting.job->err(), "first cause: host host1 is lost: ssh was ended by SIGKILL"), 1) << waiting.job->err();
  expect_nothing_left(all, waiting);
}

TEST(JobBySsh, AJobOfASingleOtherHostEndsWithTheConnection) {  // N1: no other launcher would notice
  MAKE_SSH_HOSTS(all, 2);
  // The command itself would notice as well, but much later than ssh. The agent there ends the rank after that silence.
  const Waiting waiting = start_waiting(all, "host1:1", 1, {"--silence", "8", "--ssh", quick_to_notice(all)});
  all.hosts().run(1, {"ip", "link", "set", "net0", "down"});
  EXPECT_EQ(waiting.job->wait(), 1) << waiting.job->err();
  EXPECT_EQ(count(waiting.job->err(), "first cause: host host1 is lost: ssh ended with exit code 255"), 1) << waiting.job->err();
  expect_nothing_left(all, waiting);
}

TEST(JobBySsh, AJobEndsWhereANetworkIsCut) {  // N1
  MAKE_SSH_HOSTS(all, 3);
  const Waiting waiting = start_waiting(all, "host0:1,host1:1,host2:1", 3, {"--silence", "4", "--ssh", quick_to_notice(all)});
  all.hosts().run(2, {"ip", "link", "set", "net0", "down"});
  EXPECT_EQ(waiting.job->wait(), 1) << waiting.job->err();
  EXPECT_EQ(count(waiting.job->err(), "first cause: "), 1) << waiting.job->err();
  EXPECT_NE(waiting.job->err().find("host2"), std::string::npos) << waiting.job->err();
  expect_nothing_left(all, waiting);
}

TEST(JobBySsh, AJobSurvivesAPauseOfTheCommand) {  // Ctrl-Z is no loss
  MAKE_SSH_HOSTS(all, 2);
  const auto job = all.start(0, all.run_words("host1:1", {HOST_RANK, "hold", all.folder() + "/go"}, {"--silence", "2"}));
  ASSERT_TRUE(job->until_out_has("holding\n")) << job->err();
  job->send(SIGTSTP);
  EXPECT_EQ(job->wait(std::chrono::seconds(4)), -1) << "longer than the silence";
  job->send(SIGCONT);
  write_secret(all.folder() + "/go", "");
  EXPECT_EQ(job->wait(), 0) << job->err();
}

}  // namespace
}  // namespace unisono::testing
