// What a core dump of a launcher, or of a rank, would tell of the job's secret.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "covers.h"
#include "memory_search.h"
#include "running_command.h"
#include "store/authentication.h"

namespace unisono::testing {
namespace {

using base::Secret;

/// Two launchers on this host, with two ranks each that have exchanged numbers and objects by TCP and rest.
struct Job {
  std::vector<std::unique_ptr<RunningCommand>> launchers;
  std::vector<pid_t> ranks = {};
};

Job start(const std::vector<std::string>& flags, const std::map<std::string, std::string>& variables) {
  Job job;
  const std::string port = std::to_string(free_port());
  for (int node = 0; node < 2; ++node) {
    std::vector<std::string> words{"run",           "-n", "2", "--nnodes", "2", "--node-rank", std::to_string(node), "--master-addr", "127.0.0.1",
                                   "--master-port", port};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", "env", "-u", "UNISONO_TOKEN", RANK_HELPER, "exchange-and-rest"});
    std::map<std::string, std::string> environment{{"UNISONO_BACKEND", "tcp"}};
    environment.insert(variables.begin(), variables.end());
    job.launchers.push_back(std::make_unique<RunningCommand>(unisono_command(words), RunningCommand::Options{.environment = environment}));
  }
  for (int rank = 0; rank < 4; ++rank) {
    RunningCommand& launcher = *job.launchers[static_cast<std::size_t>(rank / 2)];
    if (!launcher.until_out_has(tag(rank) + "rests ")) throw std::runtime_error(launcher.err());
    job.ranks.push_back(std::stoi(word_after(launcher.out(), tag(rank) + "rests ")));
  }
  return job;
}

void expect_kept_out(pid_t process, const std::string& name, const std::map<std::string, Secret>& secrets) {
  for (const auto& [kind, secret] : secrets)
    EXPECT_EQ(search_memory(process, secret.view()).dumped, std::vector<std::string>()) << kind << " in " << name;
}

void expect_kept_out_everywhere(const Job& job, const Secret& token) {
  const std::map<std::string, Secret> secrets{{"the token", token},
                                              {"the key of TLS", store::derived_key(token.view(), "unisono store: TLS 1.3 pre-shared key")}};
  for (const auto& launcher : job.launchers) {
    expect_kept_out(launcher->pid(), "a launcher", secrets);
    EXPECT_GE(search_memory(launcher->pid(), token.view()).kept_out, 1) << "a launcher has it elsewhere than it is looked for";
  }
  for (const pid_t rank : job.ranks) {
    expect_kept_out(rank, "a rank", secrets);
    EXPECT_GE(search_memory(rank, token.view()).kept_out, 1) << "a rank has it elsewhere than it is looked for";
  }
}

TEST(SecretsInMemory, TokenOfTheEnvironmentIsKeptOutOfCoreDumps) {
  const Secret token = random_secret();
  for (const char* encryption : {"off", "on"}) {
    const Job job = start({}, {{"UNISONO_TOKEN", std::string(token.view())}, {"UNISONO_TLS", encryption}});
    expect_kept_out_everywhere(job, token);
  }
}

TEST(SecretsInMemory, TokenOfAFileIsKeptOutOfCoreDumps) {
  const Secret token = random_secret();
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/token";
  std::ofstream(path) << token.view() << "\n";
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  expect_kept_out_everywhere(start({"--token-file", path}, {}), token);
}

TEST(SecretsInMemory, TokenReachesTheProgramThatAsksItsEnvironment) {
  RunningCommand job(unisono_command({"run", "-n", "2", "--", "sh", "-c", "echo has $UNISONO_TOKEN"}),
                     {.environment = {{"UNISONO_TOKEN", "a token of this test"}}});
  EXPECT_EQ(job.wait(), 0) << job.err();
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(count(job.out(), tag(rank) + "has a token of this test\n"), 1) << job.out();
}

}  // namespace
}  // namespace unisono::testing
