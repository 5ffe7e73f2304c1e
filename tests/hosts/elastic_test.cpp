// Jobs that go on without lost ranks and hosts, on several hosts: `unisono run -n MIN:MAX --nnodes N`, and `--nnodes MIN:MAX`.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "covers.h"
#include "faults/faults.h"
#include "job.h"

namespace unisono::testing {
namespace {

struct Training {
  int size = 4;
  std::string moment, victims = "-";
  int step = 20;
  Variables patience = {{"TEST_SILENCE_MS", "3000"}};
};

std::vector<std::string> words_of(const Training& training) {
  return {FAULT_RANK, "elastic", "60", std::to_string(training.size), training.moment, training.victims, std::to_string(training.step)};
}

/// A launcher of two ranks on that host. Where hosts come and go none is told its number.
std::unique_ptr<RunningCommand> launcher_on(const Hosts& hosts, int host, const std::vector<std::string>& flags, const Training& training) {
  std::vector<std::string> words{"run", "--master-addr", hosts.address(0), "--max-restarts", "4", "--grace", "3"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.emplace_back("--");
  for (const std::string& word : words_of(training)) words.push_back(word);
  Variables variables = end_of_training();
  variables.insert({"UNISONO_LOG", "error"});
  return hosts.start(host, unisono_command(words), with(secret, with(variables, training.patience)));
}

/// All members have ended well, with the same account of the job.
void expect_done(const std::string& out, int size, const std::string& sizes) {
  EXPECT_EQ(count(out, "WRONG"), 0) << out;
  EXPECT_EQ(count(out, "done as rank"), size) << out;
  // Where the survivors need long to agree, others have come before a step is done without them.
  int alike = 0;
  for (std::size_t at = out.find("sizes "); at != std::string::npos; at = out.find("sizes ", at + 1)) {
    const std::string account = sizes_in(out.substr(at, out.find('\n', at) - at));
    alike += account == sizes || account == std::to_string(size) ? 1 : 0;
  }
  EXPECT_EQ(alike, size) << out;
}

TEST(ElasticOfHosts, ElasticHostsReplaceALostRankWhereItWas) {
  COVERS("TS-49");
  MAKE_HOSTS(hosts, 2);
  for (const char* victim : {"0", "3"}) {
    std::vector<std::unique_ptr<RunningCommand>> job;
    for (int host = 0; host < 2; ++host) {
      job.push_back(
          launcher_on(hosts, host, {"--nnodes", "2", "--node-rank", std::to_string(host), "-n", "1:2"}, {.moment = "small", .victims = victim}));
    }
    for (const auto& launcher : job) EXPECT_EQ(launcher->wait(longest_training), 0) << launcher->out() << launcher->err();
    expect_done(job[0]->out() + job[1]->out(), 4, "4,3,4");
  }
}

/// The network of a host goes. The others cannot tell whether it lives; they go on, and its ranks end with their launcher. When the network is back,
/// a launcher there joins the job.
void cut_a_host_off(const std::string& silence, const Variables& patience) {
  MAKE_HOSTS(hosts, 3);
  const std::vector<std::string> flags{"--nnodes", "2:3", "-n", "2", "--last-call", "20", "--silence", silence};
  const Training training{.size = 6, .moment = "place", .step = 7, .patience = patience};
  std::vector<std::unique_ptr<RunningCommand>> job;
  for (int host = 0; host < 3; ++host) job.push_back(launcher_on(hosts, host, flags, training));
  for (const auto& launcher : job) ASSERT_TRUE(launcher->until_out_has("under way", 2)) << launcher->err();
  hosts.run(2, {"ip", "link", "set", "net0", "down"});
  EXPECT_EQ(job[2]->wait(), 1) << job[2]->err();
  EXPECT_EQ(count(job[2]->err(), "first cause: the launcher at host0:"), 1) << job[2]->err();
  ASSERT_TRUE(job[0]->until_err_has("; the job goes on with 2 hosts\n")) << job[0]->err();
  hosts.run(2, {"ip", "link", "set", "net0", "up"});
  const auto again = launcher_on(hosts, 2, flags, training);
  for (RunningCommand* launcher : {job[0].get(), job[1].get(), again.get()}) {
    EXPECT_EQ(launcher->wait(longest_training), 0) << launcher->out() << launcher->err();
  }
  expect_done(job[0]->out() + job[1]->out() + again->out(), 6, "6,4,6");
}

TEST(ElasticOfHosts, ElasticHostsGoOnWithoutAHostThatIsCutOff) {
  COVERS("TS-50", "Q-30");
  cut_a_host_off("4", {{"TEST_SILENCE_MS", "3000"}});
}

// The calls have less time than a rank may be silent for.
TEST(ElasticOfHosts, ElasticHostsGoOnWithoutAHostThatIsCutOffWhereCallsHaveAShortDeadline) {
  cut_a_host_off("9", {{"TEST_INIT_TIMEOUT_MS", "12000"}});
}

TEST(ElasticOfHosts, ElasticHostsRefuseHostsThatSaySomethingElse) {
  MAKE_HOSTS(hosts, 2);
  const auto first = launcher_on(hosts, 0, {"--nnodes", "1:2", "-n", "2", "--last-call", "0"}, {.moment = "place", .step = 99});
  ASSERT_TRUE(first->until_out_has("under way", 2)) << first->err();
  const auto other_ranks = launcher_on(hosts, 1, {"--nnodes", "1:2", "-n", "3"}, {.moment = "place", .step = 99});
  EXPECT_EQ(other_ranks->wait(), 2) << other_ranks->err();
  EXPECT_NE(other_ranks->err().find("every host has as many ranks"), std::string::npos) << other_ranks->err();
  for (const char* numbers : {"2", "1:3"}) {
    const auto other = launcher_on(hosts, 1, {"--nnodes", numbers, "--node-rank", "1", "-n", "2"}, {.moment = "place", .step = 99});
    EXPECT_EQ(other->wait(), 2) << other->err();
    EXPECT_NE(other->err().find(fmt::format("--nnodes 1:2 and unisono")), std::string::npos) << other->err();
    EXPECT_NE(other->err().find(fmt::format("this launcher --nnodes {} and", numbers)), std::string::npos) << other->err();
  }
  first->send(SIGINT);
  EXPECT_EQ(first->wait(), 130) << first->err();
}

}  // namespace
}  // namespace unisono::testing
