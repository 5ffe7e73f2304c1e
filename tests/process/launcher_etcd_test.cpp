// `unisono run --store etcd://…`: launchers of several hosts, here all on this one, that meet in etcd.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "etcd_server.h"
#include "rendezvous/record.h"
#include "running_command.h"
#include "store/etcd.h"

namespace unisono::testing {
namespace {

class LauncherEtcd : public ::testing::Test {
 protected:
  void SetUp() override {
    NEEDS_ETCD();
    server_ = std::make_unique<EtcdServer>();
  }
  std::vector<std::string> host(const std::vector<std::string>& program, const std::vector<std::string>& flags = {},
                                const std::string& query = {}) const {
    std::vector<std::string> words{"run", "-n", "2", "--nnodes", "2", "--store", server_->url("/jobs/a") + query, "--grace", "5"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.emplace_back("--");
    words.insert(words.end(), program.begin(), program.end());
    return unisono_command(words);
  }
  std::int64_t keys_left() const { return store::etcd::open_etcd(server_->url("/jobs/a"), {}, base::Deadline(std::chrono::seconds(20)))->num_keys(); }

  std::unique_ptr<EtcdServer> server_;
};

void expect_four_ranks(const std::string& out) {
  for (int r = 0; r < 4; ++r) EXPECT_EQ(count(out, fmt::format("[{}] rank {} of 4, local {} {}, sum 6\n", r, r, r % 2, r % 2)), 1) << out;
}

TEST_F(LauncherEtcd, TheLauncherNumbersTheHostsAndLetsThemMeet) {
  RunningCommand one(host({SPAWN_HELPER, "rank"})), other(host({SPAWN_HELPER, "rank"}));
  EXPECT_EQ(one.wait(), 0) << one.err();
  EXPECT_EQ(other.wait(), 0) << other.err();
  expect_four_ranks(one.out() + other.out());
  EXPECT_EQ(keys_left(), 0);
  // The place can be used again at once.
  RunningCommand second(host({SPAWN_HELPER, "rank"}, {"--node-rank", "1"})), first(host({SPAWN_HELPER, "rank"}, {"--node-rank", "0"}));
  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_EQ(second.wait(), 0) << second.err();
  EXPECT_EQ(count(first.out(), "[0] rank 0 of 4"), 1) << first.out();
  expect_four_ranks(first.out() + second.out());
}

// Another launcher is told that the job runs, which goes on; and when all launchers were killed, the next job runs.
TEST_F(LauncherEtcd, TheLauncherRefusesOneTooManyAndGoesOnAfterAJobThatWasKilled) {
  auto one = std::make_unique<RunningCommand>(host({RANK_HELPER, "rest"})), other = std::make_unique<RunningCommand>(host({RANK_HELPER, "rest"}));
  ASSERT_TRUE(one->until([&] { return count(one->out(), "ready") == 2; })) << one->out() << one->err();
  ASSERT_TRUE(other->until([&] { return count(other->out(), "ready") == 2; })) << other->out() << other->err();
  RunningCommand third(host({SPAWN_HELPER, "rank"}));
  EXPECT_EQ(third.wait(), 2) << third.err();
  EXPECT_NE(third.err().find("one too many"), std::string::npos) << third.err();
  for (const auto& launcher : {one.get(), other.get()}) launcher->send(SIGKILL);
  EXPECT_EQ(one->wait(), 128 + SIGKILL);
  EXPECT_EQ(other->wait(), 128 + SIGKILL);
  RunningCommand first(host({SPAWN_HELPER, "rank"})), second(host({SPAWN_HELPER, "rank"}));
  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_EQ(second.wait(), 0) << second.err();
  expect_four_ranks(first.out() + second.out());
}

// All of its launchers have slept for longer than their leases, and another job has begun at the place.
TEST_F(LauncherEtcd, TheLauncherEndsAJobThatHasSleptAndLostItsPlace) {
  std::vector<std::unique_ptr<RunningCommand>> sleeping, next;
  const auto start_two = [&](std::vector<std::unique_ptr<RunningCommand>>& job) {
    for (int i = 0; i < 2; ++i) job.push_back(std::make_unique<RunningCommand>(host({RANK_HELPER, "rest"}, {}, "?ttl=2")));
    for (const auto& launcher : job) ASSERT_TRUE(launcher->until_out_has("ready", 2)) << launcher->err();
  };
  start_two(sleeping);
  const auto store = store::etcd::open_etcd(server_->url("/jobs/a"), {}, base::Deadline(std::chrono::seconds(20)));
  for (const auto& launcher : sleeping) launcher->send(SIGSTOP);
  for (int seat = 0; seat < 2; ++seat) {
    const std::string text = store->get(fmt::format("unisono/rendezvous/hosts/1/auto/{}", seat), std::chrono::seconds(30));
    ASSERT_TRUE(eventually([&] { return !store->is_present(rendezvous::decode(text).presence); }));
  }
  start_two(next);
  for (const auto& launcher : sleeping) launcher->send(SIGCONT);
  for (const auto& launcher : sleeping) {
    EXPECT_EQ(launcher->wait(), 1) << launcher->err();
    EXPECT_EQ(count(launcher->err(), "first cause: another job has taken the place of this one at "), 1) << launcher->err();
  }
  next[0]->send(SIGTERM);
  for (const auto& launcher : next) EXPECT_EQ(launcher->wait(), 143) << launcher->err();
}

TEST_F(LauncherEtcd, TheLauncherGoesOnWithoutEtcdOnceAllHaveMet) {
  RunningCommand one(host({RANK_HELPER, "rest"})), other(host({RANK_HELPER, "rest"}));
  ASSERT_TRUE(one.until([&] { return count(one.out(), "ready") == 2; })) << one.out() << one.err();
  ASSERT_TRUE(other.until([&] { return count(other.out(), "ready") == 2; })) << other.out() << other.err();
  server_->kill();
  one.send(SIGTERM);
  EXPECT_EQ(one.wait(), 128 + SIGTERM) << one.err();
  EXPECT_NE(other.wait(), -1) << other.err();
}

// The descriptors of libcurl are the launcher's alone.
TEST_F(LauncherEtcd, TheLauncherLeavesNoSocketToItsRanks) {
  const std::vector<std::string> look{"/bin/sh", "-c", "echo ; ls -l /proc/$$/fd | grep -v launcher | grep socket: | wc -l"};
  RunningCommand one(host(look)), other(host(look));
  EXPECT_EQ(one.wait(), 0) << one.err();
  EXPECT_EQ(other.wait(), 0) << other.err();
  RunningCommand alone(unisono_command({"run", "-n", "1", "--", look[0], look[1], look[2]}));
  EXPECT_EQ(alone.wait(), 0);
  const std::string usual = lines_of(alone.out()).back().substr(tag(0).size());
  for (const RunningCommand* const each : {&one, &other}) {
    for (const std::string& line : lines_of(each->out())) {
      const std::string said = line.substr(std::min(line.size(), tag(0).size()));
      EXPECT_TRUE(said.empty() || said == usual) << line;
    }
  }
}

TEST_F(LauncherEtcd, TheLauncherNamesTheEndpointThatDoesNotAnswer) {
  server_->kill();
  RunningCommand job(host({SPAWN_HELPER, "rank"}), {.environment = {{"UNISONO_TIMEOUT", "1"}}});
  EXPECT_EQ(job.wait(), 1) << job.err();
  EXPECT_NE(job.err().find("http://" + server_->endpoint()), std::string::npos) << job.err();
}

TEST(LauncherEtcdUse, TheLauncherRefusesWhatContradictsItself) {
  for (const auto& [flags, why] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--store", "etcd://a/b"}, "--nnodes"},
           {{"--nnodes", "2", "--store", "etcd://a/b", "--master-addr", "10.0.0.1"}, "not both"},
           {{"--hosts", "a,b", "--store", "etcd://a/b"}, "--hosts"},
           {{"--nnodes", "2", "--store", "etcd://a"}, "names no job"},
           {{"--nnodes", "2", "--store", "http://a/b"}, "neither etcd://"}}) {
    RunningCommand job(run_plain(flags, {}));
    EXPECT_EQ(job.wait(), 2) << why << job.err();
    EXPECT_NE(job.err().find(why), std::string::npos) << job.err();
  }
}

// The command without the plug-in beside it.
TEST(LauncherEtcdUse, TheLauncherNamesThePackageWhereThePlugInIsMissing) {
  const TemporaryFolder folder;
  const std::string command = folder.path() + "/bin/unisono";
  std::filesystem::create_directory(folder.path() + "/bin");
  std::filesystem::copy_file(unisono_command({}).front(), command);
  RunningCommand job({command, "run", "--nnodes", "2", "--store", "etcd://127.0.0.1:1/b", "--", "/bin/true"});
  EXPECT_EQ(job.wait(), 1) << job.err();
  EXPECT_NE(job.err().find("libunisono-etcd.so"), std::string::npos) << job.err();
  EXPECT_NE(job.err().find("libcurl4-openssl-dev"), std::string::npos) << job.err();
}

}  // namespace
}  // namespace unisono::testing
