// Ranks of several hosts that nobody of ours launched: what they find in their environment, as torchrun, ssh, srun or a script leaves it there, and
// what is refused.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "covers.h"
#include "base/socket.h"
#include "job.h"
#include "store/wire.h"

namespace unisono::testing {
namespace {

std::unique_ptr<RunningCommand> rank_on(const Hosts& hosts, int host, const Variables& variables, const std::vector<std::string>& words = {"meet"}) {
  std::vector<std::string> all{HOST_RANK};
  all.insert(all.end(), words.begin(), words.end());
  return hosts.start(host, all, variables);
}

void expect_has(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(RanksOfHosts, RanksOfHostsMeetByTheEnvironment) {  // B15
  COVERS("E-01", "E-02", "E-05", "E-06");
  for (const bool six : {false, true}) {
    MAKE_HOSTS(hosts, 3, six ? std::vector<std::string>{"--six"} : std::vector<std::string>{});
    std::vector<std::unique_ptr<RunningCommand>> job;
    for (int rank = 0; rank < 3; ++rank) job.push_back(rank_on(hosts, rank, rank_variables(rank, 3, six ? hosts.address(0) : "host0")));
    for (int rank = 0; rank < 3; ++rank) {
      RunningCommand& each = *job[static_cast<std::size_t>(rank)];
      EXPECT_EQ(each.wait(), 0) << each.out();
      EXPECT_EQ(each.out(), fmt::format("rank {} of 3 at {}, with host0 host1 host2\n", rank, hosts.address(rank)));
    }
  }
}

TEST(RanksOfHosts, RanksOfHostsMeetBesideTorchrunsAgent) {  // of two hosts, one of which holds the port with a store of its own
  COVERS("E-12");
  MAKE_HOSTS(hosts, 2);
  hosts.in_network_of(0, [&] {
    const auto agent = base::try_listen(base::resolve("10.77.0.1", 29500).front());
    ASSERT_TRUE(agent.fd);
    std::vector<std::unique_ptr<RunningCommand>> job;
    for (int rank = 0; rank < 2; ++rank) {
      job.push_back(rank_on(hosts, rank,
                            with(rank_variables(rank, 2, "10.77.0.1"), {{"LOCAL_RANK", "0"},
                                                                        {"LOCAL_WORLD_SIZE", "1"},
                                                                        {"GROUP_RANK", std::to_string(rank)},
                                                                        {"TORCHELASTIC_RUN_ID", "none"},
                                                                        {"TORCHELASTIC_USE_AGENT_STORE", "True"}})));
    }
    for (int rank = 0; rank < 2; ++rank) {
      RunningCommand& each = *job[static_cast<std::size_t>(rank)];
      EXPECT_EQ(each.wait(), 0) << each.out();
      EXPECT_EQ(each.out(), fmt::format("rank {} of 2 at {}, with host0 host1\n", rank, hosts.address(rank)));
    }
  });
}

/// Two ranks on two hosts, each with these words and variables; what they say, whatever comes of them.
struct Told {
  std::vector<int> codes;
  std::string text;
};
Told two_ranks(const Hosts& hosts, const std::vector<std::string>& words, const Variables& variables) {
  std::vector<std::unique_ptr<RunningCommand>> job;
  for (int rank = 0; rank < 2; ++rank) {
    job.push_back(hosts.start(rank, words, with({{"RANK", std::to_string(rank)}, {"WORLD_SIZE", "2"}}, variables)));
  }
  Told told;
  for (const auto& each : job) {
    told.codes.push_back(each->wait());
    told.text += each->out() + unwrapped(each->err());
  }
  return told;
}

TEST(RanksOfHosts, FileAndGivenStoreNeedTheJobsToken) {
  MAKE_HOSTS(hosts, 2);
  const TemporaryFolder folder;
  int meetings = 0;
  for (const bool is_file : {false, true}) {
    const auto words = [&] {
      const std::string path = fmt::format("{}/{}", folder.path(), ++meetings);
      return is_file ? std::vector<std::string>{HOST_RANK, "sum", "file://" + path} : std::vector<std::string>{HOST_RANK, "member", path};
    };
    const Told without = two_ranks(hosts, words(), {});
    EXPECT_EQ(without.codes, (std::vector<int>{1, 1}));
    expect_has(without.text, {"the ranks are on several hosts (rank 0 on host0, rank 1 on host1), so their connections need the job's secret",
                              "set UNISONO_TOKEN to the same random text on every rank"});
    const Told with_one = two_ranks(hosts, words(), secret);
    EXPECT_EQ(with_one.codes, (std::vector<int>{0, 0})) << with_one.text;
    expect_has(with_one.text, {"rank 0", "rank 1", "sum 1"});
    EXPECT_EQ(with_one.text.find("token"), std::string::npos) << with_one.text;
    const Told warned = two_ranks(hosts, words(), {{"UNISONO_TOKEN", "none"}});
    EXPECT_EQ(warned.codes, (std::vector<int>{0, 0})) << warned.text;
    EXPECT_EQ(count(warned.text, "the ranks of several hosts ask each other for no token"), 1) << warned.text;
    const Told unencrypted = two_ranks(hosts, words(), {{"UNISONO_TOKEN", "none"}, {"UNISONO_TLS", "required"}});
    EXPECT_EQ(unencrypted.codes, (std::vector<int>{1, 1}));
    expect_has(unencrypted.text, {"UNISONO_TLS=required takes the job's secret"});
  }
}

TEST(RanksOfHosts, GivenStoreComesWithTheLaunchersToken) {  // which is in no variable of theirs
  MAKE_HOSTS(hosts, 2);
  const TemporaryFolder folder;
  write_secret(folder.path() + "/token", "the secret in the launchers' file");
  const std::vector<std::string> words{"sh", "-c", "test -z \"$UNISONO_TOKEN$UNISONO_TOKEN_FILE\" && exec \"$0\" member \"$1\"", HOST_RANK,
                                       folder.path() + "/store"};
  const auto job = start_job(hosts, 2, words, {"--token-file", folder.path() + "/token"}, {{"UNISONO_TLS", "required"}});
  std::string out;
  for (const auto& launcher : job) {
    EXPECT_EQ(launcher->wait(), 0) << launcher->err();
    out += launcher->out();
  }
  EXPECT_EQ(count(out, "sum 6"), 4) << out;
}

TEST(RanksOfHosts, RanksOfHostsMeetAsTasksOfSlurm) {  // at the first node of the list, at the port of the job's number
  COVERS("S-01", "S-02");
  MAKE_HOSTS(hosts, 2);
  std::vector<std::unique_ptr<RunningCommand>> job;
  for (int rank = 0; rank < 2; ++rank) {
    job.push_back(rank_on(hosts, rank,
                          with(secret, {{"SLURM_JOB_ID", "4711"},
                                        {"SLURM_PROCID", std::to_string(rank)},
                                        {"SLURM_LOCALID", "0"},
                                        {"SLURM_NTASKS", "2"},
                                        {"SLURM_NODEID", std::to_string(rank)},
                                        {"SLURM_STEP_NODELIST", "host[0-1]"},
                                        {"SLURM_STEP_NUM_NODES", "2"}})));
  }
  for (int rank = 0; rank < 2; ++rank) {
    RunningCommand& each = *job[static_cast<std::size_t>(rank)];
    EXPECT_EQ(each.wait(), 0) << each.out();
    EXPECT_EQ(each.out(), fmt::format("rank {} of 2 at {}, with host0 host1\n", rank, hosts.address(rank)));
  }
}

TEST(RanksOfHosts, ARankThatNeverComesIsNamedWithThoseThatCame) {  // R1, F20
  MAKE_HOSTS(hosts, 3);
  std::vector<std::unique_ptr<RunningCommand>> job;
  for (const int rank : {0, 2}) job.push_back(rank_on(hosts, rank, with(rank_variables(rank, 4, "host0"), {{"UNISONO_TIMEOUT", "8"}})));
  for (const auto& each : job) {
    EXPECT_EQ(each->wait(), 1);
    expect_has(each->out(), {"failed: Timeout", "2 of 4 ranks joined within ", "missing ranks 1, 3", "0 at host0:", "2 at host2:"});
  }
}

TEST(RanksOfHosts, ASecondRankOfTheSameNumberLeavesTheFirstAlone) {  // R2, F19
  MAKE_HOSTS(hosts, 3);
  const auto zero = rank_on(hosts, 0, rank_variables(0, 3, "host0"));
  const auto one = rank_on(hosts, 1, rank_variables(1, 3, "host0"));
  // The one that stays was the first of the two.
  const auto other = rank_on(hosts, 2, rank_variables(1, 3, "host0"));
  bool one_stays = true;
  ASSERT_TRUE(eventually([&] {
    one_stays = one->wait(std::chrono::milliseconds(20)) == -1;
    return !one_stays || other->wait(std::chrono::milliseconds(20)) != -1;
  }));
  const RunningCommand& refused = one_stays ? *other : *one;
  expect_has(refused.out(), {"failed: InvalidArgument", fmt::format("rank 1 is taken by {}:", one_stays ? "host1" : "host2"),
                             fmt::format("this process, {}:", one_stays ? "host2" : "host1")});
  const auto two = rank_on(hosts, 2, rank_variables(2, 3, "host0"));
  for (RunningCommand* each : {zero.get(), one_stays ? one.get() : other.get(), two.get()}) EXPECT_EQ(each->wait(), 0) << each->out();
}

TEST(RanksOfHosts, DifferentWorldSizesAreToldToBoth) {  // R3, B14
  MAKE_HOSTS(hosts, 2);
  const auto zero = rank_on(hosts, 0, rank_variables(0, 2, "host0"));
  const auto one = rank_on(hosts, 1, rank_variables(1, 3, "host0"));
  for (RunningCommand* each : {zero.get(), one.get()}) {
    EXPECT_EQ(each->wait(), 1);
    expect_has(each->out(), {"failed: Mismatch", "rank 0 at host0:", " says 2", "rank 1 at host1:", " says 3"});
  }
}

TEST(RanksOfHosts, OneOfAnotherAttemptIsTurnedAway) {  // R4
  MAKE_HOSTS(hosts, 2);
  const auto of_attempt = [&](int rank, const char* id, const char* attempt) {
    return with(rank_variables(rank, 2, "host0"), {{"TORCHELASTIC_RUN_ID", id}, {"TORCHELASTIC_RESTART_COUNT", attempt}});
  };
  const auto zero = rank_on(hosts, 0, of_attempt(0, "job", "1"));
  for (const auto& variables : {of_attempt(1, "job", "0"), of_attempt(1, "another job", "1")}) {
    const auto stale = rank_on(hosts, 1, variables);
    EXPECT_EQ(stale->wait(), 1);
    expect_has(stale->out(), {"failed: ProtocolError", "it belongs to another job"});
  }
  const auto one = rank_on(hosts, 1, of_attempt(1, "job", "1"));
  for (RunningCommand* each : {zero.get(), one.get()}) EXPECT_EQ(each->wait(), 0) << each->out();
}

TEST(RanksOfHosts, OneOfAnotherVersionIsToldBoth) {  // R5
  MAKE_HOSTS(hosts, 2);
  const auto zero = rank_on(hosts, 0, rank_variables(0, 2, "host0"));
  ASSERT_TRUE(eventually([&] { return !hosts.listening(0).empty(); }));
  hosts.in_network_of(1, [&] {
    auto opened = base::try_connect(base::resolve("10.77.0.1", 29500).front(), base::Deadline(std::chrono::seconds(10)));
    ASSERT_TRUE(opened.fd);
    std::string old = store::greeting();
    old[store::magic.size()] = static_cast<char>(store::wire_version + 5);
    ASSERT_EQ(::send(opened.fd.get(), old.data(), old.size(), MSG_NOSIGNAL), static_cast<ssize_t>(old.size()));
    std::string answer(64, '\0');
    ASSERT_TRUE(base::wait_for(opened.fd.get(), 1, base::Deadline(std::chrono::seconds(10))));
    answer.resize(static_cast<std::size_t>(::recv(opened.fd.get(), answer.data(), answer.size(), 0)));
    EXPECT_EQ(answer, store::greeting()) << "from which the other side can tell both versions";
  });
  const std::string both =
      fmt::format("it is unisono version {} (wire {}), this is {}", "0.1.0", store::wire_version + 5, store::describe_own_version());
  EXPECT_TRUE(zero->until_err_has(both)) << zero->err();
  EXPECT_NE(zero->err().find("closed a connection from 10.77.0.2"), std::string::npos);
  const auto one = rank_on(hosts, 1, rank_variables(1, 2, "host0"));
  for (RunningCommand* each : {zero.get(), one.get()}) EXPECT_EQ(each->wait(), 0) << each->out();
}

TEST(RanksOfHosts, ABusyPortIsNamedWithItsAddress) {  // R6, F6, B13
  MAKE_HOSTS(hosts, 1);
  hosts.in_network_of(0, [&] {
    const auto other = base::try_listen(base::resolve("10.77.0.1", 29500).front());
    ASSERT_TRUE(other.fd);
    const auto zero = rank_on(hosts, 0, rank_variables(0, 2, "host0"));
    EXPECT_EQ(zero->wait(), 1);
    expect_has(zero->out(),
               {"failed: InvalidArgument", "10.77.0.1:29500: Address already in use", "another job, or a second rank 0, holds the port"});
  });
}

TEST(RanksOfHosts, AStoreThatIsNotThereIsNamedWithTheReason) {  // R7
  MAKE_HOSTS(hosts, 2);
  const auto reason = [&](const std::string& master) {
    const auto one = rank_on(hosts, 1, with(rank_variables(1, 2, master), {{"UNISONO_TIMEOUT", "1"}}));
    EXPECT_EQ(one->wait(), 1);
    expect_has(one->out(), {"failed: Timeout", "the store at " + master, "could not be reached within 1"});
    return one->out();
  };
  expect_has(reason("10.77.0.1"), {"Connection refused"});
  expect_has(reason("198.51.100.1"), {"Network is unreachable"});
  hosts.run(1, {"ip", "route", "add", "blackhole", "203.0.113.0/24"});
  expect_has(reason("203.0.113.7"), {"203.0.113.7:29500: "});
  // Nothing answers and nothing refuses.
  hosts.run(1, {"ip", "neighbour", "add", "10.77.0.9", "lladdr", "02:00:00:00:00:09", "dev", "net0"});
  expect_has(reason("10.77.0.9"), {"10.77.0.9:29500: Connection timed out"});
}

TEST(RanksOfHosts, OneWithAnotherSecretDoesNotGetIn) {  // A5
  MAKE_HOSTS(hosts, 2);
  const auto zero = rank_on(hosts, 0, rank_variables(0, 2, "host0"));
  for (const Variables& wrong : {Variables{{"UNISONO_TOKEN", "another secret of these tests"}}, Variables{{"UNISONO_TOKEN", "none"}}}) {
    const auto stranger = rank_on(hosts, 1, with(rank_variables(1, 2, "host0"), wrong));
    EXPECT_EQ(stranger->wait(), 1);
    expect_has(stranger->out(), {"failed: ProtocolError", "token"});
  }
  const auto nothing = rank_on(hosts, 1, with(rank_variables(1, 2, "host0"), {{"UNISONO_TOKEN", ""}}));
  EXPECT_EQ(nothing->wait(), 1);
  expect_has(nothing->out(), {"failed: InvalidArgument", "10.77.0.1:29500 is not a loopback address", "UNISONO_TOKEN"});
  const auto one = rank_on(hosts, 1, rank_variables(1, 2, "host0"));
  for (RunningCommand* each : {zero.get(), one.get()}) EXPECT_EQ(each->wait(), 0) << each->out();
}

}  // namespace
}  // namespace unisono::testing
