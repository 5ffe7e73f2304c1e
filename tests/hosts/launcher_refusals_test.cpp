// Refusals of the launchers of several hosts, before any rank is started.

#include <gtest/gtest.h>

#include "job.h"

namespace unisono::testing {
namespace {

const std::vector<std::string> never{"sh", "-c", "echo a rank has started"};

std::map<std::string, std::string> within(int seconds) {
  auto variables = secret;
  variables["UNISONO_TIMEOUT"] = std::to_string(seconds);
  return variables;
}

TEST(RefusedHosts, OneThatNeverComesIsNamedWithThoseThatCame) {  // R1, F20
  MAKE_HOSTS(hosts, 3);
  std::vector<std::unique_ptr<RunningCommand>> job;
  for (const int node : {0, 2}) {
    job.push_back(hosts.start(node, node_words({.nodes = 3, .node = node, .master = hosts.address(0)}, never), within(8)));
  }
  for (const auto& launcher : job) {
    EXPECT_EQ(launcher->wait(), 1);
    EXPECT_NE(launcher->err().find("2 of 3 nodes joined within 8"), std::string::npos) << launcher->err();
    EXPECT_NE(launcher->err().find("missing nodes 1 (here: 0 at host0:"), std::string::npos) << launcher->err();
    EXPECT_NE(launcher->err().find("2 at host2:"), std::string::npos) << launcher->err();
    EXPECT_EQ(launcher->out(), "");
  }
}

TEST(RefusedHosts, ASecondOneOfTheSameNumberLeavesTheFirstAlone) {  // R2, F19
  MAKE_HOSTS(hosts, 3);
  const auto first = hosts.start(0, node_words({.node = 0, .master = hosts.address(0)}, {HOST_RANK, "meet"}), secret);
  TemporaryFolder folder;
  const std::string when_told = fmt::format("echo up; while [ ! -e {}/go ]; do sleep 0.05; done; exec {} meet", folder.path(), HOST_RANK);
  const auto second = hosts.start(1, node_words({.node = 1, .master = hosts.address(0)}, {"sh", "-c", when_told}), secret);
  ASSERT_TRUE(second->until_out_has("up\n", 2)) << second->err();  // it has joined
  const auto third = hosts.start(2, node_words({.node = 1, .master = hosts.address(0)}, never), secret);
  EXPECT_NE(third->wait(), 0);
  EXPECT_NE(third->err().find("node 1 is taken by host1:"), std::string::npos) << third->err();
  EXPECT_NE(unwrapped(third->err()).find("this process, host2:"), std::string::npos) << third->err();
  EXPECT_EQ(third->out(), "");
  write_secret(folder.path() + "/go", "");
  EXPECT_EQ(first->wait(), 0) << first->err();
  EXPECT_EQ(second->wait(), 0) << second->err();
}

TEST(RefusedHosts, DifferentNumbersOfHostsAreToldToBoth) {  // R3
  MAKE_HOSTS(hosts, 2);
  const auto first = hosts.start(0, node_words({.nodes = 2, .node = 0, .master = hosts.address(0)}, never), secret);
  const auto second = hosts.start(1, node_words({.nodes = 3, .node = 1, .master = hosts.address(0)}, never), secret);
  for (RunningCommand* launcher : {first.get(), second.get()}) {
    EXPECT_NE(launcher->wait(), 0);
    for (const char* part :
         {"the nodes disagree about the number of hosts", "node 0 at host0:", " says 2", "node 1 at host1:", " says 3", "--nnodes"}) {
      EXPECT_NE(launcher->err().find(part), std::string::npos) << part << ": " << launcher->err();
    }
  }
}

TEST(RefusedHosts, ABusyPortIsNamedWithItsAddress) {  // R6, F6
  MAKE_HOSTS(hosts, 1);
  TemporaryFolder folder;
  const auto holder = hosts.start(0, node_words({.node = 0, .master = hosts.address(0)}, never), secret);
  ASSERT_TRUE(eventually([&] { return !hosts.listening(0).empty(); }));
  const auto second = hosts.start(0, node_words({.node = 0, .master = hosts.address(0)}, never), secret);
  EXPECT_NE(second->wait(), 0);
  EXPECT_NE(second->err().find("10.77.0.1:29500: Address already in use"), std::string::npos) << second->err();
}

// It would be waited for until the time is over: what listens on loopback is reached by nobody else.
TEST(RefusedHosts, AnInterfaceThatIsLoopbackIsNamed) {
  MAKE_HOSTS(hosts, 2);
  for (const char* variable : {"UNISONO_INTERFACE", "GLOO_SOCKET_IFNAME"}) {
    auto job = start_job(hosts, 2, {HOST_RANK, "sum"}, {}, with(secret, {{variable, "lo"}}));
    for (const auto& launcher : job) {
      EXPECT_NE(launcher->wait(), 0) << launcher->out();
      const std::string said = launcher->out() + launcher->err();
      EXPECT_NE(said.find(fmt::format("{}=lo chooses 127.0.0.1, a loopback address, which no other host reaches", variable)), std::string::npos)
          << said;
      EXPECT_NE(said.find("choose another interface"), std::string::npos) << said;
    }
  }
}

TEST(RefusedHosts, ANumberThatWasForgottenIsNamed) {
  MAKE_HOSTS(hosts, 2);
  const auto launcher = hosts.start(1, unisono_command({"run", "--nnodes", "2", "--master-addr", hosts.address(0), "-n", "1", "--", "true"}), secret);
  EXPECT_EQ(launcher->wait(), 2) << launcher->err();
  const std::string said = unwrapped(launcher->err());
  for (const char* part : {"--node-rank is missing, so this launcher is host 0", "Cannot assign requested address", "--node-rank 1, 2"})
    EXPECT_NE(said.find(part), std::string::npos) << part << ": " << said;
}

TEST(RefusedHosts, AnAddressThatDoesNotAnswerIsNamedWithTheReason) {  // R7
  MAKE_HOSTS(hosts, 2);
  const auto reason = [&](const std::string& master) {
    const auto launcher = hosts.start(1, node_words({.node = 1, .master = master}, never), within(1));
    EXPECT_EQ(launcher->wait(), 1);
    return launcher->err();
  };
  EXPECT_NE(reason(hosts.address(0)).find("10.77.0.1:29500: Connection refused"), std::string::npos);
  EXPECT_NE(reason("198.51.100.1").find("198.51.100.1:29500: Network is unreachable"), std::string::npos) << "no route leads there";
  hosts.run(0, {"ip", "link", "set", "net0", "down"});
  const std::string hole = reason(hosts.address(0));
  EXPECT_TRUE(hole.find("No route to host") != std::string::npos || hole.find("timed out") != std::string::npos) << hole;
  EXPECT_NE(hole.find("the launchers' store at 10.77.0.1:29500 could not be reached within 12"), std::string::npos) << hole;
  EXPECT_NE(unwrapped(hole).find("`unisono doctor --hosts A,B` shows whether a firewall is in the way"), std::string::npos) << hole;
}

TEST(RefusedHosts, ASecretMustBeSaidOrDeclined) {  // A5
  MAKE_HOSTS(hosts, 2);
  for (int node = 0; node < 2; ++node) {
    const auto silent = hosts.start(node, node_words({.node = node, .master = hosts.address(0)}, never));
    EXPECT_NE(silent->wait(), 0);
    for (const char* part : {"10.77.0.1:29500 is not a loopback address", "UNISONO_TOKEN", "UNISONO_TOKEN_FILE", "none"}) {
      EXPECT_NE(silent->err().find(part), std::string::npos) << part << ": " << silent->err();
    }
  }
  const auto job = start_job(hosts, 2, {HOST_RANK, "meet"}, {}, {{"UNISONO_TOKEN", "none"}});
  for (const auto& launcher : job) {
    EXPECT_EQ(launcher->wait(), 0) << launcher->err();
    EXPECT_NE(launcher->err().find("asks for no token: every process that reaches this address can join or disturb the job"), std::string::npos)
        << launcher->err();
  }
}

TEST(RefusedHosts, OneWithAnotherSecretDoesNotGetIn) {  // A5
  MAKE_HOSTS(hosts, 2);
  const auto first = hosts.start(0, node_words({.node = 0, .master = hosts.address(0)}, never), within(8));
  const auto second =
      hosts.start(1, node_words({.node = 1, .master = hosts.address(0)}, never), {{"UNISONO_TOKEN", "another secret of these tests"}});
  EXPECT_NE(second->wait(), 0);
  EXPECT_NE(second->err().find("its token is not the token of this process"), std::string::npos) << second->err();
  EXPECT_EQ(first->wait(), 1);
  EXPECT_NE(first->err().find("missing nodes 1"), std::string::npos) << first->err();
  EXPECT_EQ(first->out() + second->out(), "");
}

TEST(RefusedHosts, AFileWithTheSecretMustBeOnesOwn) {  // A7
  MAKE_HOSTS(hosts, 1);
  TemporaryFolder folder;
  const std::string path = folder.path() + "/secret";
  const auto refusal = [&](const std::string& file) {
    const auto launcher = hosts.start(0, node_words({.node = 0, .master = hosts.address(0), .more = {"--token-file", file}}, never));
    EXPECT_NE(launcher->wait(), 0);
    return unwrapped(launcher->err());
  };
  write_secret(path, "shh", 0640);
  EXPECT_NE(refusal(path).find("is open to others (mode 0640)"), std::string::npos);
  EXPECT_NE(refusal(path).find("chmod 600 " + path), std::string::npos);
  write_secret(path, "shh");
  hosts.run(0, {"chown", "65534", path});
  EXPECT_NE(refusal(path).find("belongs to user 65534, and this process runs as user 0"), std::string::npos);
  hosts.run(0, {"chown", "0", path});
  write_secret(path, " \n");
  EXPECT_NE(refusal(path).find("is empty"), std::string::npos);
  EXPECT_NE(refusal(folder.path()).find("is not a regular file"), std::string::npos);
  EXPECT_NE(refusal(path + "s").find("No such file"), std::string::npos);
}

TEST(TokenFile, TheTokenOfAFileReachesTheRanksAndNobodyElse) {  // A7
  MAKE_HOSTS(hosts, 2);
  TemporaryFolder folder;
  const std::string path = folder.path() + "/secret", word = "a-word-that-stands-nowhere-else";
  write_secret(path, word + "\n");
  const auto job = start_job(hosts, 2, {HOST_RANK, "hold", folder.path() + "/go"}, {"--token-file", path}, {{"UNISONO_LOG", "debug"}});
  for (const auto& launcher : job) ASSERT_TRUE(launcher->until_out_has("holding\n", 2)) << launcher->err();
  // Neither the launchers nor the ranks show it in their words or variables.
  // The pattern is not what it finds, so that grep does not find itself.
  const std::string pattern = word.substr(0, 10) + "[" + word[10] + "]" + word.substr(11);
  const std::string seen =
      hosts.run(0, {"sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c -e '" + pattern + "' || true"});
  EXPECT_EQ(seen, "0\n");
  write_secret(folder.path() + "/go", "");
  for (const auto& launcher : job) {
    EXPECT_EQ(launcher->wait(), 0) << launcher->err();
    EXPECT_EQ(count(launcher->out() + launcher->err(), word), 0);
  }
}

TEST(RefusedHosts, FlagsThatContradictAreNamed) {
  const auto refused = [](const std::vector<std::string>& flags) {
    std::vector<std::string> words{"run"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", "true"});
    RunningCommand command(unisono_command(words));
    EXPECT_NE(command.wait(), 0);
    return command.err();
  };
  EXPECT_NE(refused({"--nnodes", "2"}).find("--master-addr"), std::string::npos);
  EXPECT_NE(refused({"--nnodes", "2", "--node-rank", "2", "--master-addr", "127.0.0.1"}).find("node rank must be from 0 to 1"), std::string::npos);
  EXPECT_NE(refused({"--nnodes", "2", "--master-addr", "0.0.0.0", "--master-port", "1"}).find("not a loopback address"), std::string::npos);
}

}  // namespace
}  // namespace unisono::testing
