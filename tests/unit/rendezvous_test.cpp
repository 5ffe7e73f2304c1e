// How the processes of a job find each other: T-03 … T-08, T-41, T-42, T-44, I-40, E-01 … E-12, K-01, K-15, K-16, R1 … R7, R9.
#include "rendezvous/rendezvous.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "ground/socket.h"
#include "rendezvous/join.h"
#include "rendezvous/url.h"
#include "store/client.h"
#include "store/server.h"
#include "unisono/error.h"

namespace unisono::rendezvous {
namespace {

using namespace std::chrono_literals;
using ground::Environment;
using Variables = std::map<std::string, std::string, std::less<>>;

/// What one rank got: an identity or an error.
struct Outcome {
  std::optional<JobIdentity> identity;
  std::exception_ptr error;

  template <class E>
  std::string text() const {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const E& e) {
      return e.what();
    } catch (const std::exception& e) {
      ADD_FAILURE() << "another error: " << e.what();
      return {};
    }
    ADD_FAILURE() << "no error";
    return {};
  }
  const JobIdentity& get() const {
    if (error) std::rethrow_exception(error);
    return *identity;
  }
};

Outcome attempt(const JobRequest& request, const Environment& environment = {}) {
  Outcome outcome;
  try {
    outcome.identity = meet(request, environment);
  } catch (...) {
    outcome.error = std::current_exception();
  }
  return outcome;
}

/// All of them at once, as threads.
std::vector<Outcome> together(std::size_t n, const std::function<Outcome(int)>& rank) {
  std::vector<Outcome> outcomes(n);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < n; ++i) threads.emplace_back([&, i] { outcomes[i] = rank(static_cast<int>(i)); });
  for (auto& thread : threads) thread.join();
  return outcomes;
}

std::uint16_t free_port() {
  const auto listener = ground::try_listen(ground::resolve("127.0.0.1", 0).front());
  return ground::local_address(listener.fd.get()).port();
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
#define EXPECT_CONTAINS(text, part) EXPECT_TRUE(contains(text, part)) << "\"" << (text) << "\" does not say \"" << (part) << "\""

Variables job_variables(int rank, int world_size, int port) {
  return {{"RANK", fmt::format("{}", rank)},
          {"WORLD_SIZE", fmt::format("{}", world_size)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", fmt::format("{}", port)}};
}

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}
Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

/// The ranks are who they should be, know each other, and share a store.
void expect_a_job(const std::vector<Outcome>& outcomes, int world_size) {
  std::set<int> ranks;
  for (const Outcome& outcome : outcomes) {
    const JobIdentity& identity = outcome.get();
    ranks.insert(identity.rank);
    EXPECT_EQ(identity.world_size, world_size);
    ASSERT_EQ(identity.members.size(), static_cast<std::size_t>(world_size));
    for (int r = 0; r < world_size; ++r) EXPECT_EQ(identity.members[static_cast<std::size_t>(r)].rank, r);
    EXPECT_EQ(identity.members[0].pid, ::getpid());
    identity.store->set(fmt::format("from {}", identity.rank), fmt::format("{}", identity.rank * 11 + 1));
  }
  EXPECT_EQ(ranks.size(), static_cast<std::size_t>(world_size));
  for (const Outcome& outcome : outcomes) {
    for (int r = 0; r < world_size; ++r) EXPECT_EQ(outcome.get().store->get(fmt::format("from {}", r), 20s), fmt::format("{}", r * 11 + 1));
  }
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "unisono_meet_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Error("no temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

// ---- alone ------------------------------------------------------------------------------------------------------

TEST(Alone, who_was_not_launched_is_rank_0_of_1) {  // C-12
  const JobIdentity identity = meet({}, Environment());
  EXPECT_EQ(identity.rank, 0);
  EXPECT_EQ(identity.world_size, 1);
  EXPECT_EQ(identity.launcher, Launcher::none);
  identity.store->set("a", "1");
  EXPECT_EQ(identity.store->get("a"), "1");
}

// ---- env:// -----------------------------------------------------------------------------------------------------

class EnvironmentMeeting : public testing::TestWithParam<int> {};

TEST_P(EnvironmentMeeting, brings_all_ranks_together) {  // T-03, T-41
  const int n = GetParam();
  const int port = free_port();
  const auto outcomes = together(static_cast<std::size_t>(n), [&](int rank) {
    return attempt({}, Environment(with(job_variables(rank, n, port), "LOCAL_RANK", fmt::format("{}", rank))));
  });
  expect_a_job(outcomes, n);
  for (int rank = 0; rank < n; ++rank) {
    const JobIdentity& identity = outcomes[static_cast<std::size_t>(rank)].get();
    EXPECT_EQ(identity.rank, rank);
    EXPECT_EQ(identity.local_rank, rank);
    EXPECT_EQ(identity.launcher, Launcher::torchrun);
    EXPECT_EQ(identity.serves_store, rank == 0);
  }
}
INSTANTIATE_TEST_SUITE_P(Sizes, EnvironmentMeeting, testing::Values(1, 2, 3, 5, 8));

TEST(EnvironmentVariables, missing_ones_are_named) {  // T-41, E-04
  const Variables all = job_variables(1, 2, 12345);
  for (const std::string name : {"RANK", "WORLD_SIZE", "MASTER_PORT", "MASTER_ADDR"}) {
    const std::string text = attempt({.timeout = 10s}, Environment(without(all, name))).text<InvalidArgument>();
    EXPECT_CONTAINS(text, name + " is not set");
  }
  EXPECT_CONTAINS(attempt({}, Environment(Variables{{"LOCAL_RANK", "0"}})).text<InvalidArgument>(), "RANK and WORLD_SIZE are not set");
}

TEST(EnvironmentVariables, rank_0_needs_no_address) {  // T-41, E-05
  const int port = free_port();
  const auto outcomes = together(2, [&](int rank) {
    const Variables all = job_variables(rank, 2, port);
    return attempt({}, Environment(rank == 0 ? without(all, "MASTER_ADDR") : all));
  });
  expect_a_job(outcomes, 2);
}

TEST(EnvironmentVariables, contradictions_name_both_sources) {  // T-41, I-40, E-01, E-02
  const Environment environment(with(job_variables(1, 2, 12345), "LOCAL_RANK", "1"));
  std::string text = attempt({.rank = 0}, environment).text<InvalidArgument>();
  EXPECT_CONTAINS(text, "rank is 0 by the argument rank");
  EXPECT_CONTAINS(text, "1 by RANK");
  text = attempt({.world_size = 3}, environment).text<InvalidArgument>();
  EXPECT_CONTAINS(text, "world size is 3 by the argument world_size");
  EXPECT_CONTAINS(text, "2 by WORLD_SIZE");
  text = attempt({.local_rank = 4}, environment).text<InvalidArgument>();
  EXPECT_CONTAINS(text, "1 by LOCAL_RANK");
  text = attempt({.init_method = "env://?rank=0"}, environment).text<InvalidArgument>();
  EXPECT_CONTAINS(text, "0 by init_method");
}

TEST(EnvironmentVariables, equal_values_from_two_sources_are_fine) {  // T-41
  const int port = free_port();
  const auto outcomes = together(2, [&](int rank) { return attempt({.rank = rank, .world_size = 2}, Environment(job_variables(rank, 2, port))); });
  expect_a_job(outcomes, 2);
}

TEST(EnvironmentVariables, arguments_may_take_the_place_of_variables) {  // T-41
  const int port = free_port();
  const auto outcomes = together(2, [&](int rank) {
    return attempt({.rank = rank, .world_size = 2}, Environment(without(without(job_variables(rank, 2, port), "RANK"), "WORLD_SIZE")));
  });
  expect_a_job(outcomes, 2);
}

TEST(EnvironmentVariables, impossible_numbers_are_refused) {  // T-06, T-07
  const Variables all = job_variables(1, 2, 12345);
  EXPECT_CONTAINS(attempt({}, Environment(with(all, "RANK", "2"))).text<InvalidArgument>(), "rank 2 is not within a world of 2");
  EXPECT_CONTAINS(attempt({}, Environment(with(all, "RANK", "-1"))).text<InvalidArgument>(), "rank -1");
  EXPECT_CONTAINS(attempt({}, Environment(with(all, "WORLD_SIZE", "0"))).text<InvalidArgument>(), "world size is 0");
  EXPECT_CONTAINS(attempt({}, Environment(with(all, "WORLD_SIZE", "two"))).text<InvalidArgument>(), "WORLD_SIZE");
  EXPECT_CONTAINS(attempt({}, Environment(with(all, "MASTER_PORT", "70000"))).text<InvalidArgument>(), "MASTER_PORT is 70000");
  EXPECT_CONTAINS(attempt({}, Environment(with(all, "LOCAL_RANK", "-3"))).text<InvalidArgument>(), "local rank is -3");
  EXPECT_CONTAINS(attempt({}, Environment(with(with(all, "LOCAL_RANK", "2"), "LOCAL_WORLD_SIZE", "2"))).text<InvalidArgument>(), "local rank 2");
  EXPECT_CONTAINS(attempt({}, Environment(with(all, "UNISONO_TIMEOUT", "-5"))).text<InvalidArgument>(), "UNISONO_TIMEOUT");
  EXPECT_CONTAINS(attempt({.timeout = 0ms}, Environment(all)).text<InvalidArgument>(), "timeout");
}

TEST(EnvironmentVariables, group_name_is_refused) {  // T-08
  EXPECT_CONTAINS(attempt({.group_name = "mine"}, Environment(job_variables(0, 2, 12345))).text<InvalidArgument>(), "group_name");
}

TEST(EnvironmentVariables, bound_the_join) {  // 1.5
  EXPECT_EQ(join_timeout(30min, Environment()), 120s);
  EXPECT_EQ(join_timeout(5s, Environment()), 5s);
  EXPECT_EQ(join_timeout(30min, Environment(Variables{{"UNISONO_TIMEOUT", "7"}})), 7s);
  EXPECT_EQ(join_timeout(30min, Environment(Variables{{"UNISONO_TIMEOUT", "600"}})), 600s);
  EXPECT_EQ(join_timeout(2s, Environment(Variables{{"UNISONO_TIMEOUT", "600"}})), 2s);
}

TEST(EnvironmentVariables, of_other_launchers_that_contradict_are_refused) {  // R9
  const Variables all = job_variables(1, 2, 12345);
  std::string text = attempt({}, Environment(with(with(all, "SLURM_PROCID", "3"), "SLURM_NTASKS", "2"))).text<InvalidArgument>();
  EXPECT_CONTAINS(text, "1 by RANK");
  EXPECT_CONTAINS(text, "3 by SLURM_PROCID");
  text = attempt({}, Environment(with(with(all, "OMPI_COMM_WORLD_RANK", "1"), "OMPI_COMM_WORLD_SIZE", "4"))).text<InvalidArgument>();
  EXPECT_CONTAINS(text, "2 by WORLD_SIZE");
  EXPECT_CONTAINS(text, "4 by OMPI_COMM_WORLD_SIZE");
}

TEST(EnvironmentVariables, of_an_outer_launcher_do_not_count) {  // an inner launcher inside one task of srun
  const int port = free_port();
  const auto outcomes = together(2, [&](int rank) {
    Variables all = with(job_variables(rank, 2, port), "LOCAL_RANK", fmt::format("{}", rank));
    return attempt({}, Environment(with(with(all, "SLURM_PROCID", "0"), "SLURM_NTASKS", "1")));
  });
  expect_a_job(outcomes, 2);
}

TEST(InferLauncher, knows_all_and_their_order) {  // M-32
  const auto of = [](Variables variables) { return infer_launcher(Environment(std::move(variables))); };
  EXPECT_EQ(of({}), Launcher::none);
  EXPECT_EQ(of({{"UNISONO_LAUNCHER_FD", "3"}, {"RANK", "0"}, {"WORLD_SIZE", "1"}}), Launcher::unisono);
  EXPECT_EQ(of({{"TORCHELASTIC_RUN_ID", "x"}}), Launcher::torchrun);
  EXPECT_EQ(of({{"WORLD_SIZE", "2"}}), Launcher::torchrun);
  EXPECT_EQ(of({{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}), Launcher::openmpi);
  EXPECT_EQ(of({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}), Launcher::pmi);
  EXPECT_EQ(of({{"SLURM_NTASKS", "2"}}), Launcher::slurm);
  EXPECT_EQ(of({{"HOROVOD_RANK", "1"}, {"HOROVOD_SIZE", "2"}}), Launcher::horovod);
  EXPECT_EQ(of({{"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "1"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), Launcher::pmi);
  EXPECT_EQ(of({{"SLURM_NTASKS", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}}), Launcher::openmpi);
  EXPECT_EQ(of({{"SLURM_NTASKS", "2"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}}), Launcher::torchrun);
  // A batch script that exports WORLD_SIZE for what srun starts: Slurm says the rank.
  EXPECT_EQ(of({{"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "1"}, {"WORLD_SIZE", "2"}}), Launcher::slurm);
}

TEST(LaunchedAsMany, is_what_the_environment_names) {  // rule 3
  const auto of = [](Variables variables) { return launched_as_many(Environment(std::move(variables))); };
  EXPECT_FALSE(of({}));
  EXPECT_FALSE(of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_TRUE(of({{"RANK", "0"}, {"WORLD_SIZE", "2"}}));
  EXPECT_TRUE(of({{"WORLD_SIZE", "2"}}));
  EXPECT_TRUE(of({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "3"}}));
  EXPECT_TRUE(of({{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}}));
  EXPECT_TRUE(of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "3"}}));
  EXPECT_FALSE(of({{"SLURM_NTASKS", "3"}}));  // a shell inside an allocation
  EXPECT_TRUE(of({{"HOROVOD_RANK", "0"}, {"HOROVOD_SIZE", "3"}}));
}

// ---- what goes wrong on the way ---------------------------------------------------------------------------------

TEST(Join, missing_ranks_are_named_on_every_rank) {  // R1, Q-09
  const int port = free_port();
  const auto outcomes = together(2, [&](int i) { return attempt({.timeout = 300ms}, Environment(job_variables(2 * i, 5, port))); });
  for (const Outcome& outcome : outcomes) {
    const std::string text = outcome.text<Timeout>();
    EXPECT_CONTAINS(text, "2 of 5 ranks joined");
    EXPECT_CONTAINS(text, "missing ranks 1, 3, 4");
    try {
      std::rethrow_exception(outcome.error);
    } catch (const Timeout& error) {
      EXPECT_EQ(error.missing(), (std::vector<int>{1, 3, 4}));
    }
  }
}

TEST(Join, a_duplicate_is_rejected_and_the_job_is_not_disturbed) {  // R2
  const int port = free_port();
  std::thread first([&] {
    const auto outcomes = together(2, [&](int rank) { return attempt({.timeout = 60s}, Environment(job_variables(rank, 3, port))); });
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.get().world_size, 3);
  });
  // Who of the two rank 1 comes second is a matter of chance only before the first one sits: wait until it does.
  const auto look = store::connect_tcp(ground::resolve("127.0.0.1", static_cast<std::uint16_t>(port)), "the store", {}, ground::Deadline(60s));
  look->wait(std::vector<std::string>{"unisono/rendezvous//1/rank/0", "unisono/rendezvous//1/rank/1"}, 60s);
  const std::string text = attempt({.timeout = 60s}, Environment(job_variables(1, 3, port))).text<InvalidArgument>();
  const std::string pid = fmt::format(":{}", ::getpid());
  EXPECT_CONTAINS(text, "rank 1 is taken by");
  EXPECT_NE(text.find(pid), text.rfind(pid)) << text;  // both are named
  const Outcome third = attempt({.timeout = 60s}, Environment(job_variables(2, 3, port)));
  EXPECT_EQ(third.get().rank, 2);
  // After the job is complete as well.
  first.join();
}

TEST(Join, a_latecomer_to_a_complete_job_is_rejected) {  // R2
  auto store = std::make_shared<MemoryStore>();
  const auto outcomes = together(2, [&](int rank) { return attempt({.rank = rank, .world_size = 2, .store = store}); });
  expect_a_job(outcomes, 2);
  EXPECT_CONTAINS(attempt({.rank = 1, .world_size = 2, .store = store}).text<InvalidArgument>(), "rank 1 is taken");
}

TEST(Join, different_world_sizes_are_told_to_both) {  // R3
  const int port = free_port();
  const auto outcomes = together(2, [&](int rank) { return attempt({.timeout = 60s}, Environment(job_variables(rank, 2 + rank, port))); });
  for (const Outcome& outcome : outcomes) {
    const std::string text = outcome.text<Mismatch>();
    EXPECT_CONTAINS(text, "says 2");
    EXPECT_CONTAINS(text, "says 3");
    EXPECT_CONTAINS(text, "rank 0");
    EXPECT_CONTAINS(text, "rank 1");
  }
}

TEST(Join, another_job_or_attempt_is_refused) {  // R4
  const int port = free_port();
  const auto of_run = [&](int rank, const std::string& attempt_number) {
    return Environment(with(with(job_variables(rank, 2, port), "UNISONO_JOB_ID", "j1"), "UNISONO_ATTEMPT", attempt_number));
  };
  std::thread first([&] { EXPECT_EQ(attempt({.timeout = 60s}, of_run(0, "1")).get().world_size, 2); });
  const std::string text = attempt({.timeout = 60s}, of_run(1, "0")).text<ProtocolError>();
  EXPECT_CONTAINS(text, "another job");
  EXPECT_EQ(attempt({.timeout = 60s}, of_run(1, "1")).get().rank, 1);
  first.join();
}

TEST(Join, another_version_is_refused_with_both_named) {  // R5
  auto store = std::make_shared<MemoryStore>();
  store->set("unisono/rendezvous//1/version", "version 9.8.7 (wire 6)\trank 0 at elsewhere:1");
  const std::string text = attempt({.rank = 1, .world_size = 2, .store = store}).text<ProtocolError>();
  EXPECT_CONTAINS(text, "version 9.8.7 (wire 6)");
  EXPECT_CONTAINS(text, "version 0.");
  EXPECT_CONTAINS(text, "elsewhere:1");
}

TEST(Join, a_port_in_use_is_named_at_once) {  // R6
  const auto taken = ground::try_listen(ground::resolve("127.0.0.1", 0).front());
  const int port = ground::local_address(taken.fd.get()).port();
  const std::string text = attempt({.timeout = 60s}, Environment(job_variables(0, 2, port))).text<InvalidArgument>();
  EXPECT_CONTAINS(text, fmt::format("127.0.0.1:{}", port));
}

TEST(Join, a_store_that_nobody_serves_is_one_message) {  // R7
  const int port = free_port();
  const std::string text = attempt({.timeout = 150ms}, Environment(job_variables(1, 2, port))).text<Timeout>();
  EXPECT_CONTAINS(text, fmt::format("127.0.0.1:{}", port));
}

TEST(Join, somebody_silent_at_the_address_is_a_timeout) {  // R7: accepts, never speaks
  const auto silent = ground::try_listen(ground::resolve("127.0.0.1", 0).front());
  const int port = ground::local_address(silent.fd.get()).port();
  EXPECT_CONTAINS(attempt({.timeout = 150ms}, Environment(job_variables(1, 2, port))).text<Timeout>(), "silent");
}

TEST(Join, a_failure_leaves_nothing_open) {  // K-01
  const int port = free_port();
  const auto fail = [&] {
    const auto outcomes = together(2, [&](int i) { return attempt({.timeout = 60ms}, Environment(job_variables(i, 3, port))); });
    for (const Outcome& outcome : outcomes) outcome.text<Timeout>();
    attempt({.timeout = 60ms}, Environment(job_variables(1, 3, port))).text<Timeout>();
  };
  fail();
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 5; ++i) fail();
  EXPECT_EQ(open_descriptors(), before);
  // And the same job can be tried again.
  expect_a_job(together(2, [&](int rank) { return attempt({}, Environment(job_variables(rank, 2, port))); }), 2);
}

TEST(Join, many_come_at_once) {  // R10
  const int port = free_port();
  const auto outcomes = together(48, [&](int rank) { return attempt({.timeout = 60s}, Environment(job_variables(rank, 48, port))); });
  std::set<int> ranks;
  for (const Outcome& outcome : outcomes) ranks.insert(outcome.get().rank);
  EXPECT_EQ(ranks.size(), 48U);
}

TEST(Join, one_address_serves_job_after_job) {
  const int port = free_port();
  for (int round = 0; round < 5; ++round) {
    const auto outcomes = together(3, [&](int rank) { return attempt({}, Environment(job_variables(rank, 3, port))); });
    expect_a_job(outcomes, 3);
  }
}

TEST(Join, who_is_early_for_the_next_job_waits_for_its_server) {
  const int port = free_port();
  auto first = together(2, [&](int rank) { return attempt({}, Environment(job_variables(rank, 2, port))); });
  expect_a_job(first, 2);
  // Rank 1 leaves and comes back while rank 0 still serves the first job.
  first[1] = {};
  Outcome again;
  std::thread early([&] { again = attempt({.timeout = 60s}, Environment(job_variables(1, 2, port))); });
  first[0] = {};
  EXPECT_EQ(attempt({.timeout = 60s}, Environment(job_variables(0, 2, port))).get().rank, 0);
  early.join();
  EXPECT_EQ(again.get().rank, 1);
}

// ---- tokens -----------------------------------------------------------------------------------------------------

TEST(Token, addresses_that_are_not_loopback_need_one) {
  const std::string text = attempt({.init_method = "tcp://192.0.2.1:1234", .rank = 0, .world_size = 2}).text<InvalidArgument>();
  EXPECT_CONTAINS(text, "UNISONO_TOKEN");
  EXPECT_CONTAINS(text, "192.0.2.1:1234");
  EXPECT_CONTAINS(text, "none");
  // With the token, or "none" said aloud, it is tried; that this host has no such address is another matter.
  const Environment token(Variables{{"UNISONO_TOKEN", "secret"}});
  EXPECT_CONTAINS(attempt({.init_method = "tcp://192.0.2.1:1234", .rank = 0, .world_size = 2}, token).text<InvalidArgument>(), "cannot listen");
  const Environment none(Variables{{"UNISONO_TOKEN", "none"}});
  EXPECT_CONTAINS(attempt({.init_method = "tcp://192.0.2.1:1234", .rank = 0, .world_size = 2}, none).text<InvalidArgument>(), "cannot listen");
}

TEST(Token, a_wrong_one_is_refused) {
  const int port = free_port();
  const auto of = [&](int rank, const std::string& token) { return Environment(with(job_variables(rank, 2, port), "UNISONO_TOKEN", token)); };
  std::thread first([&] { EXPECT_EQ(attempt({.timeout = 60s}, of(0, "right")).get().world_size, 2); });
  EXPECT_CONTAINS(attempt({.timeout = 60s}, of(1, "wrong")).text<ProtocolError>(), "token");
  EXPECT_CONTAINS(attempt({.timeout = 60s}, Environment(job_variables(1, 2, port))).text<ProtocolError>(), "token");
  EXPECT_EQ(attempt({.timeout = 60s}, of(1, "right")).get().rank, 1);
  first.join();
}

// ---- tcp:// -----------------------------------------------------------------------------------------------------

TEST(TcpMeeting, at_numbers_and_names) {  // T-42
  for (const std::string host : {"127.0.0.1", "[::1]", "localhost"}) {
    const int port = free_port();
    const std::string url = fmt::format("tcp://{}:{}", host, port);
    const auto outcomes = together(3, [&](int rank) { return attempt({.init_method = url, .rank = rank, .world_size = 3}); });
    expect_a_job(outcomes, 3);
  }
}

TEST(TcpMeeting, the_url_may_carry_rank_and_size) {  // TS-42
  const int port = free_port();
  const auto outcomes =
      together(2, [&](int rank) { return attempt({.init_method = fmt::format("tcp://127.0.0.1:{}?rank={}&world_size=2", port, rank)}); });
  expect_a_job(outcomes, 2);
  EXPECT_CONTAINS(attempt({.init_method = "tcp://127.0.0.1:9?rank=0&world_size=2", .rank = 1}).text<InvalidArgument>(), "0 by init_method");
}

TEST(TcpMeeting, needs_rank_and_size) {  // T-06, T-07
  EXPECT_CONTAINS(attempt({.init_method = "tcp://127.0.0.1:9", .rank = 0}).text<InvalidArgument>(), "world_size is not given");
  EXPECT_CONTAINS(attempt({.init_method = "tcp://127.0.0.1:9", .world_size = 2}).text<InvalidArgument>(), "rank is not given");
  EXPECT_CONTAINS(attempt({.init_method = "tcp://127.0.0.1:9", .rank = 2, .world_size = 2}).text<InvalidArgument>(), "rank 2");
}

TEST(TcpMeeting, multicast_is_said_to_be_missing) {
  const Environment token(Variables{{"UNISONO_TOKEN", "x"}});
  EXPECT_CONTAINS(attempt({.init_method = "tcp://224.66.41.62:23456", .rank = 0, .world_size = 2}, token).text<Unsupported>(), "multicast");
}

TEST(Url, bad_ones_are_refused) {  // T-05
  for (const std::string text : {"127.0.0.1:9", "foo://x", "tcp://", "tcp://host", "tcp://host:", "tcp://host:0", "tcp://host:65536",
                                 "tcp://host:12x", "tcp://:12", "tcp://::1:12", "tcp://[::1]12", "tcp://[::1", "file://relative", "file:///",
                                 "env://x", "tcp://h:1?rank", "tcp://h:1?size=2", "tcp://h:1?rank=x", ""}) {
    EXPECT_THROW(parse_url(text), InvalidArgument) << text;
  }
  const Url url = parse_url("tcp://[fe80::1]:77?world_size=5&rank=3");
  EXPECT_EQ(url.host, "fe80::1");
  EXPECT_EQ(url.port, 77);
  EXPECT_EQ(url.rank, 3);
  EXPECT_EQ(url.world_size, 5);
  EXPECT_EQ(parse_url("file:///a/b").path, "/a/b");
}

// ---- file:// ----------------------------------------------------------------------------------------------------

TEST(FileMeeting, with_ranks_given) {  // T-44
  const TemporaryFolder folder;
  const std::string url = "file://" + folder.file("meet");
  {
    const auto outcomes = together(3, [&](int rank) { return attempt({.init_method = url, .rank = rank, .world_size = 3}); });
    expect_a_job(outcomes, 3);
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(outcomes[static_cast<std::size_t>(rank)].get().rank, rank);
    EXPECT_TRUE(std::filesystem::exists(folder.file("meet")));
  }
  EXPECT_FALSE(std::filesystem::exists(folder.file("meet")));  // the last one removed it
}

TEST(FileMeeting, with_ranks_assigned_around_those_given) {  // T-07, T-44
  const TemporaryFolder folder;
  const std::string url = "file://" + folder.file("meet");
  const auto outcomes = together(5, [&](int i) {
    JobRequest request{.init_method = url, .world_size = 5};
    if (i == 0) request.rank = 2;
    if (i == 1) request.rank = 0;
    return attempt(request);
  });
  expect_a_job(outcomes, 5);
  EXPECT_EQ(outcomes[0].get().rank, 2);
  EXPECT_EQ(outcomes[1].get().rank, 0);
}

TEST(FileMeeting, several_jobs_share_a_file) {  // T-08
  const TemporaryFolder folder;
  const std::string url = "file://" + folder.file("meet");
  const auto outcomes =
      together(4, [&](int i) { return attempt({.init_method = url, .rank = i % 2, .world_size = 2, .group_name = i < 2 ? "left" : "right"}); });
  expect_a_job({outcomes[0], outcomes[1]}, 2);
  outcomes[2].get().store->set("only right", "1");
  EXPECT_EQ(outcomes[3].get().store->get("only right"), "1");
  EXPECT_EQ(outcomes[0].get().store->try_get("only right"), std::nullopt);
}

TEST(FileMeeting, job_after_job_in_one_file) {
  const TemporaryFolder folder;
  const std::string url = "file://" + folder.file("meet");
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      for (int round = 0; round < 8; ++round) {
        const JobIdentity identity = meet({.init_method = url, .rank = rank, .world_size = 3, .timeout = 60s}, Environment());
        identity.store->set(fmt::format("{}", rank), fmt::format("{} {}", round, rank));
        for (int other = 0; other < 3; ++other) EXPECT_EQ(identity.store->get(fmt::format("{}", other), 60s), fmt::format("{} {}", round, other));
        identity.leave();
      }
    });
  }
  for (auto& rank : ranks) rank.join();
  EXPECT_FALSE(std::filesystem::exists(folder.file("meet")));
}

TEST(FileMeeting, problems_are_named) {
  EXPECT_CONTAINS(attempt({.init_method = "file:///no such folder/x", .rank = 0, .world_size = 1}).text<InvalidArgument>(), "/no such folder/x");
  EXPECT_CONTAINS(attempt({.init_method = "file:///tmp/x", .rank = 0}).text<InvalidArgument>(), "world_size is not given");
  const TemporaryFolder folder;
  const std::string url = "file://" + folder.file("meet");
  const std::string text = attempt({.init_method = url, .rank = 1, .world_size = 3, .timeout = 100ms}).text<Timeout>();
  EXPECT_CONTAINS(text, "missing ranks 0, 2");
  EXPECT_FALSE(std::filesystem::exists(folder.file("meet")));
  const auto outcomes = together(2, [&](int i) { return attempt({.init_method = url, .rank = i, .world_size = 2 + i, .timeout = 60s}); });
  for (const Outcome& outcome : outcomes) EXPECT_CONTAINS(outcome.text<Mismatch>(), "says 3");
}

/// Runs `body` in a child that ends without cleaning anything up, as a crash would.
void crash_after(const std::function<void()>& body) {
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
}

TEST(FileMeeting, what_a_crashed_run_left_behind_does_not_poison_the_next) {  // K-16
  const TemporaryFolder folder;
  const std::string path = folder.file("meet");
  const std::string url = "file://" + path;
  // A whole job that crashed after it met; with other sizes than the next one.
  crash_after([&] {
    const auto outcomes = together(4, [&](int rank) { return attempt({.init_method = url, .rank = rank, .world_size = 4}); });
    for (const Outcome& outcome : outcomes) outcome.get().store->set("key", "stale");
    ::_exit(0);
  });
  ASSERT_TRUE(std::filesystem::exists(path));
  {
    const auto outcomes = together(3, [&](int rank) { return attempt({.init_method = url, .rank = rank, .world_size = 3}); });
    expect_a_job(outcomes, 3);
    EXPECT_EQ(outcomes[0].get().store->try_get("key"), std::nullopt);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  // One that crashed while it waited for the others: seats taken, no verdict.
  for (const bool automatic : {false, true}) {
    const auto request = [&](int rank, int world_size) {
      JobRequest made{.init_method = url, .world_size = world_size};
      if (!automatic) made.rank = rank;
      return made;
    };
    crash_after([&] {
      std::thread([&] { attempt(request(1, 3)); }).detach();
      FileStore look(path);
      look.get("unisono/rendezvous//1/joined", 20s);
      ::_exit(0);
    });
    ASSERT_TRUE(std::filesystem::exists(path));
    const auto outcomes = together(2, [&](int rank) { return attempt(request(rank, 2)); });
    expect_a_job(outcomes, 2);
  }
}

TEST(FileMeeting, a_rank_that_crashed_while_waiting_can_be_started_again) {  // K-16
  for (const bool automatic : {false, true}) {
    const TemporaryFolder folder;
    const std::string path = folder.file("meet");
    const auto request = [&](int rank) {
      JobRequest made{.init_method = "file://" + path, .world_size = 3, .timeout = 60s};
      if (!automatic) made.rank = rank;
      return made;
    };
    std::vector<Outcome> outcomes(3);
    std::thread patient([&] { outcomes[0] = attempt(request(0)); });
    {
      FileStore look(path);
      look.get("unisono/rendezvous//1/joined", 20s);
    }
    crash_after([&] {
      std::thread([&] { attempt(request(1)); }).detach();
      FileStore look(path);
      look.get(automatic ? "unisono/rendezvous//1/auto/1" : "unisono/rendezvous//1/rank/1", 20s);
      const ground::Deadline deadline(20s);
      while (look.get("unisono/rendezvous//1/joined", 20s) != "2" && !deadline.passed()) std::this_thread::yield();
      ::_exit(0);
    });
    std::thread third([&] { outcomes[2] = attempt(request(2)); });
    outcomes[1] = attempt(request(1));
    patient.join();
    third.join();
    expect_a_job(outcomes, 3);
  }
}

// ---- a store that is given --------------------------------------------------------------------------------------

TEST(GivenStore, needs_rank_and_size) {  // I-40
  auto store = std::make_shared<MemoryStore>();
  EXPECT_CONTAINS(attempt({.world_size = 2, .store = store}).text<InvalidArgument>(), "rank is not given");
  EXPECT_CONTAINS(attempt({.rank = 0, .store = store}).text<InvalidArgument>(), "world_size is not given");
  EXPECT_CONTAINS(attempt({.init_method = "tcp://127.0.0.1:9", .rank = 0, .world_size = 2, .store = store}).text<InvalidArgument>(), "init_method");
}

TEST(GivenStore, carries_job_after_job) {
  auto store = std::make_shared<MemoryStore>();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      for (int round = 0; round < 10; ++round) {
        const JobIdentity identity = meet({.rank = rank, .world_size = 3, .timeout = 60s, .store = store}, Environment());
        EXPECT_EQ(identity.rank, rank);
        identity.store->set(fmt::format("{}", rank), fmt::format("{}", round));
        for (int other = 0; other < 3; ++other) EXPECT_EQ(identity.store->get(fmt::format("{}", other), 60s), fmt::format("{}", round));
      }
    });
  }
  for (auto& rank : ranks) rank.join();
  EXPECT_EQ(store->timeout(), 5min);
}

TEST(GivenStore, after_a_timeout_the_job_can_be_tried_again) {
  auto store = std::make_shared<MemoryStore>();
  EXPECT_CONTAINS(attempt({.rank = 0, .world_size = 2, .timeout = 30ms, .store = store}).text<Timeout>(), "missing ranks 1");
  const auto outcomes = together(2, [&](int rank) { return attempt({.rank = rank, .world_size = 2, .timeout = 60s, .store = store}); });
  expect_a_job(outcomes, 2);
}

// ---- our launcher, torchrun -------------------------------------------------------------------------------------

Variables launched(int rank, int world_size, int fd) {
  return with(with(job_variables(rank, world_size, 1), "LOCAL_RANK", fmt::format("{}", rank)), "UNISONO_LAUNCHER_FD", fmt::format("{}", fd));
}

TEST(UnderOurLauncher, ranks_meet_over_the_descriptor_again_and_again) {
  store::StoreServer server;
  std::vector<int> fds;
  for (int rank = 0; rank < 3; ++rank) {
    auto pair = ground::make_socket_pair();
    server.adopt(std::move(pair.first));
    fds.push_back(pair.second.release());
  }
  for (int round = 0; round < 3; ++round) {
    const auto outcomes = together(3, [&](int rank) { return attempt({}, Environment(launched(rank, 3, fds[static_cast<std::size_t>(rank)]))); });
    expect_a_job(outcomes, 3);
    EXPECT_EQ(outcomes[1].get().launcher, Launcher::unisono);
    outcomes[1].get().store->set("unisono/status/1", "initialized");
    EXPECT_EQ(server.peek("unisono/status/1"), "initialized");  // the launcher sees the ranks' keys as they are
  }
}

TEST(UnderOurLauncher, a_launcher_that_goes_is_noticed) {
  auto server = std::make_unique<store::StoreServer>();
  auto pair = ground::make_socket_pair();
  server->adopt(std::move(pair.first));
  const int fd = pair.second.release();
  Outcome outcome;
  std::thread rank([&] { outcome = attempt({.timeout = 60s}, Environment(launched(0, 2, fd))); });
  while (!server->peek("unisono/rendezvous//1/joined")) std::this_thread::yield();
  server.reset();
  rank.join();
  EXPECT_CONTAINS(outcome.text<PeerFailed>(), "launcher");
}

TEST(UnderOurLauncher, a_bad_descriptor_is_named) {
  EXPECT_CONTAINS(attempt({}, Environment(launched(0, 1, 987654))).text<InvalidArgument>(), "UNISONO_LAUNCHER_FD is 987654");
  std::ofstream file("/dev/null");
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  EXPECT_CONTAINS(attempt({}, Environment(launched(0, 1, pipe_ends[0]))).text<InvalidArgument>(), "UNISONO_LAUNCHER_FD");
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

Variables under_torchrun(int rank, int world_size, int local_world_size, int port, const std::string& restart = "0") {
  Variables all = with(job_variables(rank, world_size, port), "LOCAL_RANK", fmt::format("{}", rank % local_world_size));
  all["LOCAL_WORLD_SIZE"] = fmt::format("{}", local_world_size);
  all["TORCHELASTIC_RUN_ID"] = "none";
  all["TORCHELASTIC_RESTART_COUNT"] = restart;
  all["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  return all;
}

TEST(UnderTorchrun, the_agents_port_is_left_alone) {                               // E-12
  const auto agent = ground::try_listen(ground::resolve("127.0.0.1", 0).front());  // holds MASTER_PORT and speaks another language
  const int port = ground::local_address(agent.fd.get()).port();
  for (const int local : {4, 2}) {  // one host, and two
    const auto outcomes = together(4, [&](int rank) { return attempt({.timeout = 60s}, Environment(under_torchrun(rank, 4, local, port))); });
    expect_a_job(outcomes, 4);
    EXPECT_EQ(outcomes[3].get().local_rank, 3 % local);
    EXPECT_EQ(outcomes[3].get().job_id, "none");
  }
  ground::FileDescriptor visitor(::accept4(agent.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  EXPECT_FALSE(visitor);  // nobody knocked
}

TEST(UnderTorchrun, strangers_on_the_ports_beside_are_passed_over) {
  std::optional<ground::Opened> stranger;
  int port = 0;
  while (!stranger || !stranger->fd) {
    port = free_port();
    if (port < 65000) stranger = ground::try_listen(ground::resolve("127.0.0.1", static_cast<std::uint16_t>(port + 1)).front());
  }
  std::thread banner([&] {
    for (int i = 0; i < 1; ++i) {
      if (!ground::wait_for(stranger->fd.get(), 1 /* POLLIN */, ground::Deadline(60s))) return;
      const ground::FileDescriptor visitor(::accept4(stranger->fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
      EXPECT_GT(::send(visitor.get(), "220 hello\r\n", 11, MSG_NOSIGNAL), 0);
      stranger->fd.reset();
    }
  });
  const auto outcomes = together(2, [&](int rank) { return attempt({.timeout = 60s}, Environment(under_torchrun(rank, 2, 1, port))); });
  banner.join();
  expect_a_job(outcomes, 2);
}

}  // namespace
}  // namespace unisono::rendezvous
