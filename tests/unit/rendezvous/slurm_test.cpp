// Slurm's tasks.
#include "rendezvous/slurm.h"

#include <set>
#include <string>

#include "covers.h"
#include "rendezvous/identity.h"
#include "testing.h"

namespace unisono::rendezvous {
namespace {

Variables task(int rank, int local_rank, int tasks, const std::string& nodes, const std::string& job = "12345", int node_count = 1) {
  return {{"SLURM_JOB_ID", job},
          {"SLURM_PROCID", fmt::format("{}", rank)},
          {"SLURM_LOCALID", fmt::format("{}", local_rank)},
          {"SLURM_NTASKS", fmt::format("{}", tasks)},
          {"SLURM_JOB_NODELIST", nodes},
          {"SLURM_JOB_NUM_NODES", fmt::format("{}", node_count)}};
}

Variables with_torch_five(Variables variables, int rank, int local_rank, int world_size, const std::string& address, int port) {
  variables["RANK"] = fmt::format("{}", rank);
  variables["LOCAL_RANK"] = fmt::format("{}", local_rank);
  variables["WORLD_SIZE"] = fmt::format("{}", world_size);
  variables["MASTER_ADDR"] = address;
  variables["MASTER_PORT"] = fmt::format("{}", port);
  return variables;
}

struct Expected {
  int rank, local_rank, world_size;
  std::string host;
  int port;
};
void expect_identity(const Variables& variables, const Expected& expected) {
  const EnvironmentIdentity identity = identity_from_environment(Environment(variables));
  EXPECT_EQ(identity.launcher, Launcher::slurm);
  EXPECT_EQ(identity.rank->value, expected.rank);
  EXPECT_EQ(identity.local_rank->value, expected.local_rank);
  EXPECT_EQ(identity.world_size->value, expected.world_size);
  ASSERT_TRUE(identity.slurm);
  EXPECT_EQ(identity.slurm->host, expected.host);
  EXPECT_EQ(identity.slurm->port, expected.port);
}

std::string refusal(const Variables& variables) {
  try {
    identity_from_environment(Environment(variables));
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Slurm, SlurmSaysWhoATaskIs) {
  COVERS("S-01", "S-03", "M-37", "C-24");
  expect_identity(task(1, 1, 2, "c1"), {1, 1, 2, "c1", 17345});
  expect_identity(task(5, 1, 8, "c1, c2", "12345", 2), {5, 1, 8, "c1", 17345});
  expect_identity(task(5, 1, 8, "node[18-19,1-16]", "7", 18), {5, 1, 8, "node18", 15007});  // the first as given
  EXPECT_TRUE(identity_from_environment(Environment(task(1, 1, 2, "c1"))).slurm->one_node);
  EXPECT_FALSE(identity_from_environment(Environment(task(5, 1, 8, "c[1-2]", "12345", 2))).slurm->one_node);
}

TEST(Slurm, PortsAreOfTheJobsNumber) {
  COVERS("S-02", "K-36", "C-13");
  for (const auto& [job, port] : std::vector<std::pair<std::string, int>>{
           {"15000", 20000}, {"7", 15007}, {"120000", 15000}, {"12345", 17345}, {"12_3", 15012}, {"12+0", 15012}, {"99999999999999999999", 24999}}) {
    EXPECT_EQ(slurm_port(job), port) << job;
  }
  for (const std::string job : {"", "x12", "_3"}) EXPECT_THROW(slurm_port(job), InvalidArgument) << job;
  EXPECT_CONTAINS(refusal(task(0, 0, 2, "c1", "x")), "\"x\"");
}

TEST(Slurm, StepsOfAJobHavePortsOfTheirOwn) {
  std::set<int> ports;
  for (std::uint64_t step = 0; step < 50; ++step) {
    const int port = slurm_port("12345", step);
    EXPECT_GE(port, 15000);
    EXPECT_LT(port, 25000);
    EXPECT_TRUE(ports.insert(port).second) << step;
    if (step == 0) continue;
    for (int job = 12300; job < 12390; ++job) EXPECT_NE(port, slurm_port(std::to_string(job))) << "a first step of job " << job << ", step " << step;
  }
  EXPECT_EQ(identity_from_environment(Environment(with(task(1, 1, 2, "c1"), "SLURM_STEP_ID", "0"))).slurm->port, slurm_port("12345"));
  EXPECT_EQ(identity_from_environment(Environment(with(task(1, 1, 2, "c1"), "SLURM_STEP_ID", "3"))).slurm->port, slurm_port("12345", 3));
  EXPECT_EQ(slurm_port("12345", 4294967290), slurm_port("12345", 7290)) << "the greatest number of a step is one as well";
}

TEST(Slurm, AListWithoutAHostIsRefused) {
  COVERS("S-04", "H-15");
  EXPECT_CONTAINS(refusal(task(0, 0, 2, "[]")), "SLURM_JOB_NODELIST names no host");
  EXPECT_CONTAINS(refusal(task(0, 0, 2, "invalid[]")), "invalid[]");
}

TEST(Slurm, WhatIsMissingIsNamed) {
  COVERS("E-08");
  for (const std::string name : {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES"}) {
    const std::string text = refusal(without(task(1, 1, 2, "c1"), name));
    EXPECT_CONTAINS(text, "has no " + name + " ");
    EXPECT_CONTAINS(text, "Slurm job 12345");
  }
  EXPECT_CONTAINS(refusal({{"SLURM_JOB_ID", "1"}, {"SLURM_PROCID", "0"}}), "SLURM_LOCALID, SLURM_NTASKS, SLURM_JOB_NODELIST, SLURM_JOB_NUM_NODES");
}

TEST(Slurm, OlderNamesAndThoseOfAStepCount) {
  COVERS("E-09", "K-49");
  Variables variables = task(1, 0, 2, "c[1-4]", "12345", 4);
  variables["SLURM_STEP_NODELIST"] = "c[3-4]";
  variables["SLURM_STEP_NUM_NODES"] = "2";
  expect_identity(variables, {1, 0, 2, "c3", 17345});
  Variables old{{"SLURM_JOBID", "12345"}, {"SLURM_PROCID", "1"},    {"SLURM_LOCALID", "0"},
                {"SLURM_NTASKS", "2"},    {"SLURM_NODELIST", "c1"}, {"SLURM_NNODES", "1"}};
  expect_identity(old, {1, 0, 2, "c1", 17345});
}

TEST(Slurm, ALauncherWithinOneTaskWinsOnOneNode) {
  COVERS("S-05");
  const Variables outer = task(1, 1, 2, "c1");
  const Environment environment(with_torch_five(outer, 2, 2, 8, "127.0.0.1", 2233));
  EXPECT_EQ(infer_launcher(environment), Launcher::torchrun);
  EXPECT_TRUE(launched_as_many(environment));
  const EnvironmentIdentity identity = identity_from_environment(environment);
  EXPECT_EQ(identity.launcher, Launcher::torchrun);
  EXPECT_EQ(identity.rank->value, 2);
  EXPECT_EQ(identity.local_rank->value, 2);
  EXPECT_EQ(identity.world_size->value, 8);
  EXPECT_FALSE(identity.slurm);  // MASTER_ADDR and MASTER_PORT say where
  EXPECT_CONTAINS(refusal(with_torch_five(outer, 0, 2, 8, "127.0.0.1", 2233)), "RANK contradicts SLURM_PROCID: 0 vs 1");
  EXPECT_CONTAINS(refusal(with_torch_five(outer, 2, 0, 8, "127.0.0.1", 2233)), "LOCAL_RANK contradicts SLURM_LOCALID: 0 vs 1");
  EXPECT_CONTAINS(refusal(with_torch_five(outer, 1, 1, 1, "127.0.0.1", 2233)), "WORLD_SIZE contradicts SLURM_NTASKS: 1 vs 2");
}

TEST(Slurm, TheTwoMustBeEqualOnSeveralNodes) {
  COVERS("S-06", "Q-11");
  const Variables outer = task(3, 1, 4, "c1, c2", "12345", 2);
  const EnvironmentIdentity identity = identity_from_environment(Environment(with_torch_five(outer, 3, 1, 4, "c1", 12233)));
  EXPECT_EQ(identity.rank->value, 3);
  EXPECT_EQ(identity.local_rank->value, 1);
  EXPECT_EQ(identity.world_size->value, 4);
  EXPECT_FALSE(identity.slurm);
  EXPECT_CONTAINS(refusal(with_torch_five(outer, 1, 1, 4, "c1", 12233)), "RANK contradicts SLURM_PROCID: 1 vs 3");
  EXPECT_CONTAINS(refusal(with_torch_five(outer, 3, 2, 4, "c1", 12233)), "LOCAL_RANK contradicts SLURM_LOCALID: 2 vs 1");
  EXPECT_CONTAINS(refusal(with_torch_five(outer, 3, 1, 8, "c1", 12233)), "WORLD_SIZE contradicts SLURM_NTASKS: 8 vs 4");
}

TEST(Slurm, SomeOfTheFiveAreWarnedOfAndNotTaken) {
  COVERS("S-07");
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"RANK", "7"}, {"WORLD_SIZE", "9"}, {"LOCAL_RANK", "6"}}) {
    testing::internal::CaptureStderr();
    expect_identity(with(task(1, 1, 2, "c1"), name, value), {1, 1, 2, "c1", 17345});
    const std::string warning = testing::internal::GetCapturedStderr();
    EXPECT_CONTAINS(warning, name + " set beside Slurm's variables, but not ");
    EXPECT_CONTAINS(warning, "MASTER_ADDR, MASTER_PORT");
  }
  Variables equal = with(with(with(task(1, 1, 2, "c1"), "RANK", "1"), "WORLD_SIZE", "2"), "MASTER_PORT", "99");
  testing::internal::CaptureStderr();
  expect_identity(equal, {1, 1, 2, "c1", 17345});
  EXPECT_CONTAINS(testing::internal::GetCapturedStderr(), "but not LOCAL_RANK, MASTER_ADDR");
  // The place to meet may always be given, and needs no warning.
  testing::internal::CaptureStderr();
  expect_identity(with(with(task(1, 1, 2, "c1"), "MASTER_ADDR", "10.0.0.1"), "MASTER_PORT", "99"), {1, 1, 2, "c1", 17345});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// The script of sbatch is not one of the tasks that SLURM_NTASKS promises: a program that it runs itself would wait for them without a word.
TEST(Slurm, TheScriptOfABatchJobIsToldToUseSrun) {
  const auto warning_of = [](const Variables& variables) {
    testing::internal::CaptureStderr();
    identity_from_environment(Environment(variables));
    return testing::internal::GetCapturedStderr();
  };
  const Variables script = task(0, 0, 4, "c1");
  for (const Variables& variables : {script, with(script, "SLURM_STEP_ID", "4294967291")}) {
    const std::string warning = warning_of(variables);
    EXPECT_CONTAINS(warning, "this process waits for 3 others, since SLURM_NTASKS is 4, and srun has not started this process");
    EXPECT_CONTAINS(warning, "`srun` or `unisono run`");
  }
  for (const Variables& variables : {with(script, "SLURM_STEP_ID", "0"), task(1, 1, 4, "c1"), task(0, 0, 1, "c1")})
    EXPECT_EQ(warning_of(variables), "");
}

// What the others could do about it is nothing: the advice stands in the error as well, which is all that a log has at its end.
TEST(Slurm, TheScriptOfABatchJobThatWaitedInVainIsToldToUseSrun) {
  const auto text_of = [](Variables variables) {
    variables = with(with(std::move(variables), "MASTER_ADDR", "127.0.0.1"), "MASTER_PORT", fmt::format("{}", free_port()));
    return attempt({.timeout = 100ms}, Environment(variables)).text<Timeout>();
  };
  const Variables script = task(0, 0, 4, "c1");
  const std::string advice = "srun has not started this process; the script of sbatch must start the program by";
  EXPECT_CONTAINS(text_of(script), "1 of 4 ranks joined");
  EXPECT_CONTAINS(text_of(script), advice);
  EXPECT_CONTAINS(text_of(with(script, "SLURM_STEP_ID", "0")), "were all of them started");
  const Variables by_torchrun = with_torch_five(script, 0, 0, 4, "127.0.0.1", 0);
  EXPECT_CONTAINS(text_of(by_torchrun), advice) << "the adapters set these variables themselves";
  EXPECT_CONTAINS(text_of(with(by_torchrun, "TORCHELASTIC_RUN_ID", "none")), "were all of them started");
}

// A program of the other kind relies on this: no number of the job, no scontrol, and the place to meet is where MASTER_ADDR and MASTER_PORT say.
TEST(Slurm, TasksWithTheBareVariablesMeet) {
  COVERS("S-10", "M-37", "E-09");
  const int port = free_port();
  const auto outcomes = together(2, [&](int rank) {
    return attempt({.timeout = 60s}, Environment(Variables{{"SLURM_PROCID", fmt::format("{}", rank)},
                                                           {"SLURM_NTASKS", "2"},
                                                           {"SLURM_LOCALID", fmt::format("{}", rank)},
                                                           {"SLURM_NODELIST", "c[1-2]"},
                                                           {"MASTER_ADDR", "127.0.0.1"},
                                                           {"MASTER_PORT", fmt::format("{}", port)}}));
  });
  expect_a_job(outcomes, 2);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(outcomes[static_cast<std::size_t>(rank)].get().rank, rank);
    EXPECT_EQ(outcomes[static_cast<std::size_t>(rank)].get().local_rank, rank);
    EXPECT_EQ(outcomes[static_cast<std::size_t>(rank)].get().launcher, Launcher::slurm);
  }
}

TEST(Slurm, ArgumentsMustAgree) {
  COVERS("S-08", "T-41");
  const Environment environment(task(1, 1, 2, "c1"));
  EXPECT_CONTAINS(attempt({.rank = 0}, environment).text<InvalidArgument>(), "rank is 0 by the argument rank, but 1 by SLURM_PROCID");
  EXPECT_CONTAINS(attempt({.world_size = 3}, environment).text<InvalidArgument>(),
                  "world size is 3 by the argument world_size, but 2 by SLURM_NTASKS");
}

// Tasks of one node, where each may repeat in arguments what Slurm says; with a port of their own and without.
TEST(Slurm, TasksMeet) {
  COVERS("S-01", "S-08", "C-13", "S-03");
  const std::string job = fmt::format("{}", ::getpid());
  const auto by_themselves =
      together(3, [&](int rank) { return attempt({.rank = rank, .world_size = 3, .timeout = 60s}, Environment(task(rank, rank, 3, "c1", job))); });
  expect_a_job(by_themselves, 3);
  EXPECT_EQ(by_themselves[2].get().local_rank, 2);
  EXPECT_EQ(by_themselves[2].get().launcher, Launcher::slurm);
  const std::string port = fmt::format("{}", free_port());
  {
    const auto at_port =
        together(2, [&](int rank) { return attempt({.timeout = 60s}, Environment(with(task(rank, rank, 2, "c1", job), "MASTER_PORT", port))); });
    expect_a_job(at_port, 2);
  }
  // On several nodes at the first one's address, which is this host here; a requeued attempt is another job (R4).
  const auto of_nodes = [&](int rank, const std::string& attempt_number) {
    Variables variables = with(task(rank, 0, 2, "127.0.0.1,127.0.0.2", job, 2), "MASTER_PORT", port);
    return Environment(with(variables, "SLURM_RESTART_COUNT", attempt_number));
  };
  Outcome zero;  // which serves the store: it must stay until the others have read it
  auto first = in_background([&] { zero = attempt({.timeout = 60s}, of_nodes(0, "1")); });
  EXPECT_CONTAINS(attempt({.timeout = 60s}, of_nodes(1, "0")).text<ProtocolError>(), "another job");
  EXPECT_EQ(attempt({.timeout = 60s}, of_nodes(1, "1")).get().rank, 1);
}

TEST(Slurm, NodesOfOtherNamesNeedAToken) {
  const Environment environment(task(0, 0, 2, "192.0.2.77,192.0.2.78", "12345", 2));
  const std::string text = attempt({.timeout = 10s}, environment).text<InvalidArgument>();
  EXPECT_CONTAINS(text, "192.0.2.77:17345");
  EXPECT_CONTAINS(text, "UNISONO_TOKEN");
}

}  // namespace
}  // namespace unisono::rendezvous
