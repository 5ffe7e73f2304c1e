// `unisono run --hosts` on this host alone: what may be said about hosts, and the whole way with a script in the place of ssh.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "running_command.h"

namespace unisono::testing {
namespace {

struct Ended {
  int code = 0;
  std::string out, err;
};

Ended run(const std::vector<std::string>& flags, const std::vector<std::string>& program = {"sh", "-c", "echo a rank has started"},
          const std::map<std::string, std::string>& variables = {}) {
  std::vector<std::string> words{"run"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.emplace_back("--");
  words.insert(words.end(), program.begin(), program.end());
  RunningCommand command(unisono_command(words), {.environment = variables});
  const int code = command.wait();
  return {code, command.out(), unwrapped(command.err())};
}

void expect_refused(const std::vector<std::string>& flags, const std::vector<std::string>& parts,
                    const std::map<std::string, std::string>& variables = {}) {
  const Ended ended = run(flags, {"sh", "-c", "echo a rank has started"}, variables);
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_EQ(ended.out, "");
  for (const std::string& part : parts) EXPECT_NE(ended.err.find(part), std::string::npos) << part << " is missing in: " << ended.err;
}

TEST(HostLists, ListsOfHostsThatMakeNoSenseAreRefusedWithTheReason) {
  expect_refused({"--hosts", "a:4,b:0"}, {"--hosts: host b has 0 slots", "leave the host out"});
  expect_refused({"--hosts", "a:4,a:2"}, {"--hosts: host a is named twice"});
  expect_refused({"--hosts", "root@a,a"}, {"host a is named twice"});
  expect_refused({"--hosts", "n[1-3],n2"}, {"host n2 is named twice"});
  expect_refused({"--hosts", "a:many"}, {"\"many\" after a is not a number of ranks"});
  expect_refused({"--hosts", "a:"}, {"after a is not a number of ranks"});
  expect_refused({"--hosts", "a:-1"}, {"host a has -1 slots"});
  expect_refused({"--hosts", "a,,b"}, {"a name is empty"});
  expect_refused({"--hosts", "n[1-"}, {"the host list \"n[1-\" is invalid"});
  expect_refused({"--hosts", "-oProxyCommand=x"}, {"is not the name of a host"});
  expect_refused({"--hosts", "a;b"}, {"\"a;b\" is not the name of a host"});
  expect_refused({"--hosts", "a:60000,b:60000"}, {"a job has at most 65536 ranks"});
  expect_refused({"--hosts", "a:2", "-n", "3"}, {"3 ranks are asked for, and the hosts have 2 slots", "--hosts a:4,b:4"});
  expect_refused({"--hosts", "a:2", "--stdin", "2"}, {"standard input cannot go to rank 2: the last rank is 1"});
}

TEST(HostFiles, FilesOfHostsThatMakeNoSenseAreRefusedWithTheLine) {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/hosts";
  const auto refused = [&](const std::string& text, const std::vector<std::string>& parts) {
    std::ofstream(path) << text;
    expect_refused({"--hostfile", path}, parts);
  };
  refused("# comment\na slots=4\n\nb slots=0\n", {path + ":4: host b has 0 slots", "put a # in front of it"});
  refused("a slots=4\nb:2\na:1\n", {path + ":3: host a is already at " + path + ":1", "name each host once"});
  refused("a slots=4 weight=3\n", {path + ":1: \"weight=3\" is not understood", "\"host slots=4\" or \"host:4\""});
  refused("a slots=4 max_slots=2\n", {path + ":1: host a has 4 slots, and at most 2"});
  refused("a:2 slots=2\n", {path + ":1: the number of slots of host a is given twice"});
  refused("a slots=\n", {path + ":1: \"\" after a is not a number"});
  refused("a slots=99999999999\n", {path + ":1: \"99999999999\" after a is not a number"});
  refused("# nothing\n\n", {path + ": the host file names no host"});
  expect_refused({"--hostfile", folder.path() + "/none"}, {folder.path() + "/none: the host file cannot be read: No such file"});
}

TEST(HostFlags, FlagsThatContradictAreNamed) {
  expect_refused({"--hosts", "a", "--hostfile", "b"}, {"the hosts are named twice"});
  expect_refused({"--hosts", "a", "--nnodes", "2"}, {"--nnodes is for launchers that are started by hand"});
  expect_refused({"--hosts", "a", "--node-rank", "0"}, {"--node-rank is for launchers"});
  expect_refused({"-n", "1", "--ssh", "ssh"}, {"--ssh is about other hosts, and none is named"});
  expect_refused({"--hosts", "a", "-x", "NOT_SET_ANYWHERE"}, {"-x NOT_SET_ANYWHERE: this variable is not set here"});
  expect_refused({"--hosts", "a", "-x", "=1"}, {"the name of the variable is missing"});
  expect_refused({"--hosts", "a", "--export=ALL,A=b"}, {"this is a list of variables"});
  expect_refused({"--hosts", "a", "-x", "UNISONO_TOKEN"}, {"the secret reaches the hosts without this option"},
                 {{"UNISONO_TOKEN", "some sixteen bytes"}});
  expect_refused({"--hosts", "nowhere.invalid", "--ssh", "ssh 'x"}, {"--ssh: a quote is not closed"});
  expect_refused({"--hosts", "nowhere.invalid", "--ssh", " "}, {"--ssh: the command is empty"});
  const Ended ended = run({"--hosts", "nowhere.invalid", "--ssh", "no-such-ssh"});
  EXPECT_EQ(ended.code, 127) << ended.err;
  EXPECT_NE(ended.err.find("no-such-ssh"), std::string::npos) << ended.err;
}

TEST(ThisHost, ThisHostNeedsNoSsh) {
  const Ended ended = run({"--hosts", "localhost:3"}, {RANK_HELPER, "variables", "WORLD_SIZE", "LOCAL_WORLD_SIZE"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  for (int rank = 0; rank < 3; ++rank)
    for (const char* line : {"WORLD_SIZE=3\n", "LOCAL_WORLD_SIZE=3\n"}) EXPECT_EQ(count(ended.out, tag(rank) + line), 1) << ended.out;
  EXPECT_EQ(run({"--hosts", "localhost:2"}, {"sh", "-c", "[ $RANK = 1 ] && exit 9; exec sleep 100"}).code, 9);
}

/// A command that is called as ssh is, and runs the remote command here. Needs no sshd, no root and no network.
class ScriptForSsh : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = folder_.path() + "/not ssh";
    std::ofstream(path_) << "#!/bin/sh\nwhile [ $# -gt 2 ]; do shift; done\necho \"$1\" >>\"" << folder_.path() << "/called\"\nexec sh -c \"$2\"\n";
    ASSERT_EQ(::chmod(path_.c_str(), 0755), 0);
  }
  std::vector<std::string> flags(const std::string& hosts) const {
    return {"--ssh", "'" + path_ + "' an option", "--hosts", hosts, "--master-addr", "127.0.0.1"};
  }
  TemporaryFolder folder_;
  std::string path_;
};

TEST_F(ScriptForSsh, TheScriptIsCalledWithItsOptionsTheHostAndOneWord) {
  const Ended ended = run(flags("one.invalid:1,two.invalid:2"), {"sh", "-c", "echo $RANK of $WORLD_SIZE, host $GROUP_RANK"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  for (const char* line : {"[0] 0 of 3, host 0\n", "[1] 1 of 3, host 1\n", "[2] 2 of 3, host 1\n"}) EXPECT_EQ(count(ended.out, line), 1) << ended.out;
  auto called = lines_of(contents(folder_.path() + "/called"));
  std::ranges::sort(called);
  EXPECT_EQ(called, (std::vector<std::string>{"one.invalid", "two.invalid"}));
}

TEST_F(ScriptForSsh, TheCommandMayHaveAPlaceForTheHost) {
  const Ended ended = run({"--ssh", "env NAME={host}", "--hosts", "one.invalid:2"}, {"sh", "-c", "echo $NAME $RANK"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(count(ended.out, "[0] one.invalid 0\n") + count(ended.out, "[1] one.invalid 1\n"), 2) << ended.out;
}

TEST_F(ScriptForSsh, TheScriptHasMistypedVariablesNamedOnce) {
  const Ended ended = run(flags("one.invalid:1,two.invalid:1"), {"true"}, {{"UNISONO_BACKND", "tcp"}});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(count(ended.err, "UNISONO_BACKND is unknown; did you mean UNISONO_BACKEND?"), 1) << ended.err;
}

TEST_F(ScriptForSsh, AScriptForManyHostsGetsMoreDescriptors) {
  std::string hosts = "n1.invalid";
  for (int i = 2; i <= 12; ++i) hosts += fmt::format(",n{}.invalid", i);
  std::vector<std::string> words{"/bin/bash", "-c", "ulimit -S -n 40; exec \"$@\"", "-", UNISONO_COMMAND, "run"};
  for (const std::string& flag : flags(hosts)) words.push_back(flag);
  for (const char* word : {"--", "true"}) words.emplace_back(word);
  RunningCommand command(words);
  EXPECT_EQ(command.wait(), 0) << command.err();
}

TEST_F(ScriptForSsh, TheScriptGetsItsStandardInputFromAFile) {
  std::ofstream(folder_.path() + "/input") << "first\nsecond\n";
  std::vector<std::string> words{"/bin/sh", "-c", "exec \"$@\" <" + folder_.path() + "/input", "-", UNISONO_COMMAND, "run"};
  for (const std::string& flag : flags("one.invalid:1,two.invalid:1")) words.push_back(flag);
  for (const char* word : {"--", "sh", "-c", "while read line; do echo got $line; done"}) words.emplace_back(word);
  RunningCommand command(words);
  EXPECT_EQ(command.wait(), 0) << command.err();
  EXPECT_EQ(command.out(), "[0] got first\n[0] got second\n");
}

TEST_F(ScriptForSsh, TheScriptLeavesColoursToTheTerminalHere) {
  std::vector<std::string> words{"run"};
  for (const std::string& flag : flags("one.invalid:1,two.invalid:1")) words.push_back(flag);
  for (const char* word : {"--", "sh", "-c", "echo here"}) words.emplace_back(word);
  RunningCommand command(unisono_command(words), on_terminal());
  EXPECT_EQ(command.wait(), 0) << command.out();
  EXPECT_EQ(count(command.out(), "\x1b[36m[0]\x1b[0m here"), 1) << command.out();
  EXPECT_EQ(count(command.out(), "\x1b[33m[1]\x1b[0m here"), 1) << command.out();
}

/// The processes whose environment has the text, but for zombies.
std::vector<pid_t> processes_with(const std::string& text) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (contents("/proc/" + name + "/environ").find(text) != std::string::npos && is_alive(std::stoi(name))) found.push_back(std::stoi(name));
  }
  return found;
}

/// Hosts that are reached in a way that notices nothing of their end, as kubectl, srun and docker are. Their processes are in a session of their own,
/// and carry the host's name. Gone with this object.
class FarHosts {
 public:
  explicit FarHosts(const std::string& folder) : mark_("FAR_HOST=" + folder + "-"), way_(folder + "/far") {
    std::ofstream(way_) << "#!/bin/sh\nFAR_HOST=" << folder << "-$1; export FAR_HOST; shift; exec setsid -w sh -c \"$*\"\n";
    EXPECT_EQ(::chmod(way_.c_str(), 0755), 0);
  }
  ~FarHosts() {
    for (const pid_t pid : of("")) ::kill(pid, SIGKILL);
  }
  FarHosts(const FarHosts&) = delete;
  FarHosts& operator=(const FarHosts&) = delete;

  /// A job whose ranks have started.
  std::unique_ptr<RunningCommand> start(const std::string& hosts, int ranks, const std::string& silence) const {
    auto job = std::make_unique<RunningCommand>(unisono_command(
        {"run", "--hosts", hosts, "--ssh", way_, "--silence", silence, "--grace", "1", "--master-addr", "127.0.0.1", "--", RANK_HELPER, "rest"}));
    EXPECT_TRUE(job->until_out_has("ready ", ranks)) << job->err();
    return job;
  }
  std::vector<pid_t> of(const std::string& host) const { return processes_with(mark_ + host); }
  void signal(const std::string& host, int number) const {
    for (const pid_t pid : of(host)) ::kill(pid, number);
  }

 private:
  const std::string mark_, way_;
};

// As when the host has lost its power.
TEST(FarHost, AHostThatFallsSilentEndsTheJobWithinTheSilence) {
  for (const auto& [hosts, ranks] : std::vector<std::pair<std::string, int>>{{"a.invalid:1,b.invalid:1", 2}, {"b.invalid:2", 2}}) {
    const TemporaryFolder folder;
    const FarHosts far(folder.path());
    const auto job = far.start(hosts, ranks, "2");
    ASSERT_GE(far.of("b.invalid").size(), 3U);
    far.signal("b.invalid", SIGSTOP);
    EXPECT_EQ(job->wait(), 1) << job->err();
    EXPECT_EQ(count(job->err(), "first cause: "), 1) << job->err();
    EXPECT_EQ(count(job->err(), "first cause: host b.invalid is lost: nothing has come from it for 2 s\n"), 1) << job->err();
    EXPECT_TRUE(eventually([&] { return far.of("a.invalid").empty(); }));
  }
}

// Its agent lives and sends beats. The launcher of the other host takes this one for lost, and ends; that counts.
TEST(FarHost, AHostWhoseLauncherStopsEndsTheJob) {
  const TemporaryFolder folder;
  const FarHosts far(folder.path());
  const auto job = far.start("a.invalid:1,b.invalid:1", 2, "2");
  for (const pid_t pid : far.of("b.invalid")) {
    if (contents(fmt::format("/proc/{}/cmdline", pid)).find("__launch") != std::string::npos) ::kill(pid, SIGSTOP);
  }
  EXPECT_EQ(job->wait(), 1) << job->err();
  EXPECT_EQ(count(job->err(), "first cause: the launcher at "), 1) << job->err();
}

// scancel signals all processes of a job on all of its nodes, but the command that has started it.
TEST(FarHost, AHostWhoseJobIsCancelledIsNotLost) {
  const TemporaryFolder folder;
  const FarHosts far(folder.path());
  const auto job = far.start("a.invalid:1,b.invalid:1", 2, "30");
  far.signal("b.invalid", SIGTERM);
  EXPECT_EQ(job->wait(), 143) << job->err();
  EXPECT_EQ(count(job->err(), "first cause: "), 1) << job->err();
  EXPECT_TRUE(job->err().ends_with("first cause: the job was cancelled (SIGTERM)\n")) << job->err();
  EXPECT_EQ(count(job->err(), "is lost"), 0) << job->err();
  EXPECT_TRUE(eventually([&] { return far.of("").empty(); }));
}

/// Bytes that another host may send and that are no message of an agent of this version.
TEST_F(ScriptForSsh, AScriptThatBringsNonsenseIsRefused) {
  RunningCommand version(unisono_command({"version"}));
  ASSERT_EQ(version.wait(), 0);
  const std::string greeting = "unisono-host " + word_after(version.out(), "unisono ") + "\n";
  const auto answer = [&](const std::string& commands) {
    std::ofstream(path_) << "#!/bin/sh\n" << commands << "\ncat >/dev/null\n";
    const Ended ended = run(flags("one.invalid"));
    EXPECT_EQ(ended.code, 1) << ended.err;
    EXPECT_EQ(ended.out, "");
    EXPECT_NE(ended.err.find("host one.invalid (--hosts) cannot be used: "), std::string::npos) << ended.err;
    return ended.err;
  };
  const std::string greet = "printf '%s' '" + greeting + "'\n", refused = "is not a message of unisono";
  EXPECT_NE(answer("yes | head -c 100000").find("it printed 64 KiB before the greeting"), std::string::npos);
  EXPECT_NE(answer(greet + "echo O 99999999999999").find(refused), std::string::npos);
  EXPECT_NE(answer(greet + "echo O 17000000").find(refused), std::string::npos);
  EXPECT_NE(answer(greet + "echo no header at all").find(refused), std::string::npos);
  EXPECT_NE(answer(greet + "printf 'O 3\\nabcd'").find("does not end where it should"), std::string::npos);
  EXPECT_NE(answer(greet + "printf 'H 3\\nabc\\n'").find("a field does not end"), std::string::npos);
  EXPECT_NE(answer(greet + "printf 'P 3\\nabc\\n'").find("a port that nobody has asked for"), std::string::npos);
  EXPECT_NE(answer(greet + "printf 'A 3\\nabc\\n'").find(refused), std::string::npos);
  EXPECT_NE(answer(greet + "printf 'C 3\\nabc\\n'").find("of a kind that only hosts get"), std::string::npos);
}

TEST(Doctor, TheDoctorLooksAtThisHost) {
  RunningCommand fine(unisono_command({"doctor"}), {.environment = {{"UNISONO_INTERFACE", "lo"}}});
  const int code = fine.wait();
  EXPECT_EQ(code, fine.out().find("nothing is wrong") == std::string::npos ? 1 : 0) << fine.out();
  RunningCommand wrong(unisono_command({"doctor"}), {.environment = {{"UNISONO_INTERFACE", "eth77"}}});
  EXPECT_EQ(wrong.wait(), 1);
  EXPECT_NE(wrong.out().find("wrong     "), std::string::npos) << wrong.out();
  EXPECT_NE(wrong.out().find("eth77"), std::string::npos) << wrong.out();
}

TEST(Doctor, TheDoctorMeasuresBetweenHostsThatAreThisOne) {
  TemporaryFolder folder;
  const std::string picture = folder.path() + "/pairs.svg";
  RunningCommand doctor(unisono_command({"doctor", "--hosts", "localhost,127.0.0.1", "--svg", picture}),
                        {.environment = {{"UNISONO_INTERFACE", "lo"}}});
  EXPECT_EQ(doctor.wait(), 1) << "loopback is no interface for several hosts";
  EXPECT_NE(doctor.out().find("latency of 8 bytes over TCP"), std::string::npos) << doctor.out();
  EXPECT_EQ(count(contents(picture), ">localhost</text>"), 4);
}

TEST(Doctor, TheDoctorRefusesAPictureThatItCannotDraw) {
  RunningCommand one(unisono_command({"doctor", "--svg", "pairs.svg"}));
  EXPECT_EQ(one.wait(), 2);
  EXPECT_NE(unwrapped(one.err()).find("a picture shows pairs of hosts"), std::string::npos) << one.err();
  RunningCommand nowhere(unisono_command({"doctor", "--hosts", "localhost,127.0.0.1", "--svg", "/nowhere/pairs.svg"}));
  EXPECT_EQ(nowhere.wait(), 2);
  EXPECT_NE(unwrapped(nowhere.err()).find("cannot write /nowhere/pairs.svg"), std::string::npos) << nowhere.err();
}

TEST_F(ScriptForSsh, AFullDiskEndsTheScript) {
  std::vector<std::string> words{"/bin/sh", "-c", "exec \"$@\" >/dev/full", "-", UNISONO_COMMAND, "run"};
  for (const std::string& flag : flags("one.invalid:2")) words.push_back(flag);
  for (const char* word : {"--", "echo", "lost"}) words.emplace_back(word);
  RunningCommand command(words);
  EXPECT_EQ(command.wait(), 1) << command.err();
  EXPECT_NE(command.err().find("the output that follows is lost"), std::string::npos) << command.err();
}

TEST_F(ScriptForSsh, AReaderThatLeavesEndsTheJob) {
  std::vector<std::string> words{"/bin/bash", "-c", "\"$@\" | head -1; echo ended ${PIPESTATUS[0]}", "-", UNISONO_COMMAND, "run", "--grace", "1"};
  for (const std::string& flag : flags("one.invalid:2")) words.push_back(flag);
  for (const char* word : {"--", "yes"}) words.emplace_back(word);
  RunningCommand command(words);
  EXPECT_EQ(command.wait(), 0) << command.err();
  EXPECT_NE(command.out().find("y\nended 141\n"), std::string::npos) << command.out();
}

}  // namespace
}  // namespace unisono::testing
