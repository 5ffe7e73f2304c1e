// Processes with environments of their own that find each other: Slurm's tasks, a multicast address, a file; and what they then know of themselves.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/host.h"
#include "base/socket.h"
#include "covers.h"
#include "rendezvous/announcement.h"
#include "running_command.h"
#include "unisono/error.h"

namespace unisono::testing {
namespace {

using Variables = std::map<std::string, std::string>;
using Arguments = std::vector<std::string>;

class Job {
 public:
  void start(Arguments arguments, Variables variables = {}) {
    arguments.insert(arguments.begin(), MEETING_RANK);
    variables.try_emplace("UNISONO_TIMEOUT", "60");
    ranks_.push_back(std::make_unique<RunningCommand>(std::move(arguments), RunningCommand::Options{.environment = std::move(variables)}));
  }
  RunningCommand& operator[](int i) { return *ranks_[static_cast<std::size_t>(i)]; }
  void expect_success() {
    for (const auto& rank : ranks_) EXPECT_EQ(rank->wait(), 0) << rank->out() << rank->err();
  }

 private:
  std::vector<std::unique_ptr<RunningCommand>> ranks_;
};

std::string line(const RunningCommand& rank, const std::string& beginning) {
  for (const std::string& each : lines_of(rank.out())) {
    if (each.starts_with(beginning)) return each.substr(beginning.size());
  }
  return "no line \"" + beginning + "\" in: " + rank.out() + rank.err();
}

/// The variables that srun gives to a task.
Variables slurm_task(int rank, int tasks, const std::string& nodes, const std::string& job) {
  return {{"SLURM_JOB_ID", job},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", std::to_string(rank)},
          {"SLURM_LOCALID", std::to_string(rank)},
          {"SLURM_NTASKS", std::to_string(tasks)},
          {"SLURM_JOB_NODELIST", nodes},
          {"SLURM_JOB_NUM_NODES", "1"},
          {"SLURM_NODEID", "0"}};
}

// The tasks of one host, their port given.
TEST(SlurmJob, TasksOfOneHostMeetAtAGivenPort) {
  COVERS("S-01", "S-03", "E-08", "B-05", "M-33", "M-37", "K-73");
  Job job;
  const int port = free_port();
  for (int r = 0; r < 3; ++r) {
    Variables variables = slurm_task(r, 3, "node[7-9]", "12_3");
    variables["MASTER_PORT"] = std::to_string(port);
    job.start({"init", "who"}, variables);
  }
  job.expect_success();
  for (int r = 0; r < 3; ++r) EXPECT_EQ(line(job[r], "who: "), fmt::format("rank {} of 3, local {} of 3, node 0 of 1, on native, by slurm", r, r));
}

// On one node no port is needed that another job might have; two jobs of the same port number do not meet.
TEST(SlurmJob, TasksOfOneHostNeedNoPort) {
  COVERS("K-36", "C-13", "Q-12");
  Job job;
  const int number = ::getpid() % 10000;
  for (const int id : {number, number + 10000}) {
    for (int r = 0; r < 2; ++r) job.start({"init", "who"}, slurm_task(r, 2, "localhost", std::to_string(id)));
  }
  job.expect_success();
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(line(job[i], "who: "), fmt::format("rank {} of 2, local {} of 2, node 0 of 1, on native, by slurm", i % 2, i % 2));
}

// The program of an allocation of several tasks that srun did not start is told what is missing; of one task it is alone.
TEST(SlurmJob, AProgramOutsideOfTheTasksIsNoRank) {
  COVERS("E-08");
  Job job;
  job.start({"init"}, {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_NODELIST", "a"}, {"SLURM_JOB_NUM_NODES", "1"}});
  job.start({"who"}, {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "a"}, {"SLURM_JOB_NUM_NODES", "1"}});
  EXPECT_EQ(job[0].wait(), 1);
  EXPECT_NE(line(job[0], "failed: InvalidArgument ").find("no SLURM_PROCID, SLURM_LOCALID"), std::string::npos) << job[0].out();
  EXPECT_EQ(job[1].wait(), 0);
  EXPECT_EQ(line(job[1], "who: "), "rank 0 of 1, local 0 of 1, node 0 of 1, on nothing, by none");
}

// Two jobs at one address, as processes; ranks given and not.
TEST(MulticastJob, ProcessesMeetByMulticast) {
  COVERS("T-43", "T-08");
  try {
    const rendezvous::MulticastSocket socket(base::resolve("239.255.83.18", 9).front(), base::InterfaceRule("UNISONO_INTERFACE", "lo"));
  } catch (const Error& error) {
    GTEST_SKIP() << "skipped: " << error.what();
  }
  Job job;
  const Variables secret{{"UNISONO_TOKEN", "a secret of this test"}, {"UNISONO_INTERFACE", "lo"}};
  const std::string port = std::to_string(free_port());
  for (int i = 0; i < 5; ++i) {
    Arguments arguments{"method=tcp://239.255.83.18:" + port, i < 2 ? "group=left one" : "group=right", i < 2 ? "size=2" : "size=3"};
    if (i < 2) arguments.push_back("rank=" + std::to_string(i));
    arguments.insert(arguments.end(), {"init", "who", "finalize"});
    job.start(arguments, secret);
  }
  job.expect_success();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(line(job[i], "who: "), fmt::format("rank {} of 2, local {} of 2, node 0 of 1, on native, by none", i, i));
  std::string ranks;
  for (int i = 2; i < 5; ++i) ranks += word_after(job[i].out(), "who: rank ");
  std::sort(ranks.begin(), ranks.end());
  EXPECT_EQ(ranks, "012");
}

struct Layout {
  std::string row;
  Arguments hosts;
  std::vector<std::string> who, neighbours;
};
class PresentedNodes : public ::testing::TestWithParam<Layout> {};

// Uneven nodes, by the same exchange that finds real ones.
TEST_P(PresentedNodes, PresentedNodesAreFoundExactly) {
  const TemporaryFolder folder;
  const Layout& layout = GetParam();
  if (layout.row.starts_with("N0")) COVERS(("N-" + layout.row.substr(1)).c_str());
  COVERS("K-32", "K-66", "I-10", "I-11", "I-12");
  const auto n = layout.hosts.size();
  std::string hosts;
  for (const std::string& host : layout.hosts) hosts += (hosts.empty() ? "" : ",") + host;
  Job job;
  for (std::size_t r = 0; r < n; ++r) {
    job.start({"method=file://" + folder.path() + "/meet", fmt::format("rank={}", r), fmt::format("size={}", n), "hosts=" + hosts, "init", "who",
               "neighbours", "finalize"});
  }
  job.expect_success();
  for (std::size_t r = 0; r < n; ++r) {
    EXPECT_EQ(line(job[static_cast<int>(r)], "who: "), fmt::format("rank {} of {}, {}, on native, by none", r, n, layout.who[r]));
    EXPECT_EQ(line(job[static_cast<int>(r)], "neighbours: "), layout.neighbours[r]);
  }
}
INSTANTIATE_TEST_SUITE_P(
    Rows, PresentedNodes,
    ::testing::Values(Layout{"N01",
                             {"a", "a", "b", "b"},
                             {"local 0 of 2, node 0 of 2", "local 1 of 2, node 0 of 2", "local 0 of 2, node 1 of 2", "local 1 of 2, node 1 of 2"},
                             {"0,1", "0,1", "2,3", "2,3"}},
                      Layout{"N02",
                             {"a", "a", "a", "b"},
                             {"local 0 of 3, node 0 of 2", "local 1 of 3, node 0 of 2", "local 2 of 3, node 0 of 2", "local 0 of 1, node 1 of 2"},
                             {"0,1,2", "0,1,2", "0,1,2", "3"}},
                      Layout{"N03",
                             {"a", "b", "a", "b"},
                             {"local 0 of 2, node 0 of 2", "local 0 of 2, node 1 of 2", "local 1 of 2, node 0 of 2", "local 1 of 2, node 1 of 2"},
                             {"0,2", "1,3", "0,2", "1,3"}},
                      Layout{"FiveOnThree",
                             {"c", "a", "b", "a", "c"},
                             {"local 0 of 2, node 0 of 3", "local 0 of 2, node 1 of 3", "local 0 of 1, node 2 of 3", "local 1 of 2, node 1 of 3",
                              "local 1 of 2, node 0 of 3"},
                             {"0,4", "1,3", "2", "1,3", "0,4"}}),
    [](const auto& one) { return one.param.row; });

// The environment is what it was, whatever happens between initialize and finalize, and nothing is set
// on the way.
TEST(Environment, TheEnvironmentIsNeverWritten) {
  COVERS("K-34", "K-35", "E-07", "C-28", "I-42", "E-11");
  Job job;
  const int port = free_port();
  for (int r = 0; r < 2; ++r) {
    job.start({"remember", "init", "compare", "who", "finalize", "compare"},
              {{"RANK", std::to_string(r)}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", std::to_string(port)}});
  }
  job.start({"remember", "init", "compare", "finalize", "compare"}, slurm_task(0, 1, "localhost", std::to_string(::getpid())));
  job.expect_success();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(count(job[i].out(), "environment: as it was"), 2) << job[i].out();
}

// Given > LOCAL_RANK > the launcher's > set_local_rank > what the exchange of hosts found; none is the
// global rank.
TEST(LocalRank, TheLocalRankComesFromTheBestSource) {
  COVERS("C-16", "I-38", "I-52", "S-09", "K-72", "M-35");
  struct Case {
    Arguments arguments;
    Variables variables;
    int expected;
    bool warned;
  };
  const Variables task{{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_LOCALID", "3"}};
  Variables both = task;
  both["LOCAL_RANK"] = "2";
  for (const Case& one :
       std::vector<Case>{{{}, {}, 0, false},
                         {{"hint=5"}, {}, 5, true},
                         {{"hint=0"}, {}, 0, false},
                         {{"hint=5"}, task, 3, true},
                         {{"hint=5"}, both, 2, true},
                         {{"hint=5", "local=4"}, both, 4, true},
                         {{}, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}, 1, true},
                         // The variable is of another process: the task that started this one.
                         {{}, {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "1"}}, 0, false}}) {
    const TemporaryFolder folder;
    Arguments arguments = one.arguments;
    arguments.insert(arguments.end(), {"method=file://" + folder.path() + "/meet", "rank=0", "size=1", "init", "who"});
    Job job;
    job.start(arguments, one.variables);
    job.expect_success();
    EXPECT_EQ(word_after(job[0].out(), "local "), std::to_string(one.expected)) << job[0].out();
    EXPECT_EQ(count(job[0].err(), "using what was given") > 0, one.warned) << job[0].err();
  }
  {  // 0 is a number as any other
    const TemporaryFolder folder;
    Job job;
    for (int r = 0; r < 2; ++r) job.start({"hint=0", "method=file://" + folder.path() + "/meet", fmt::format("rank={}", r), "size=2", "init", "who"});
    job.expect_success();
    EXPECT_EQ(word_after(job[1].out(), "local "), "0") << job[1].out();
  }
  Job job;
  job.start({"hint=-1"});
  EXPECT_EQ(job[0].wait(), 1);
  EXPECT_NE(line(job[0], "failed: InvalidArgument ").find("-1"), std::string::npos);
}

// The ten lines, word by word, of rank 0 only.
TEST(ShowConfig, TheConfigurationHasTenLines) {
  COVERS("I-43");
  const TemporaryFolder folder;
  Job job;
  for (int r = 0; r < 3; ++r) {
    job.start({"method=file://" + folder.path() + "/meet", fmt::format("rank={}", r), "size=3", "hosts=a,b,b", "init", "config", "finalize"});
  }
  job.start({"config"});
  job.expect_success();
  const std::string host = base::host_name();
  EXPECT_EQ(job[0].out(), "distributed configuration: native-dist\nbackend: native\ndevice: cpu\nhostname: " + host +
                              "\nworld size: 3\nrank: 0\nlocal rank: 0\nnum processes per_node: 1\nnum nodes: 2\nnode rank: 0\n");
  EXPECT_EQ(job[1].out() + job[2].out(), "");
  EXPECT_EQ(job[3].out(), "distributed configuration: serial\nbackend: None\ndevice: cpu\nhostname: " + host +
                              "\nworld size: 1\nrank: 0\nlocal rank: 0\nnum processes per_node: 1\nnum nodes: 1\nnode rank: 0\n");
}

// Before it is of any job, as a program asks that has a device or a file to choose.
TEST(Launcher, TheLauncherIsKnownBeforeInitialize) {
  COVERS("TS-39", "TS-40");
  const auto said = [](const Variables& variables) {
    Job job;
    job.start({"launcher"}, variables);
    job.expect_success();
    return line(job[0], "launcher: ");
  };
  EXPECT_EQ(said({}), "local rank -1, not by torchrun");
  EXPECT_EQ(said({{"LOCAL_RANK", "3"}}), "local rank 3, not by torchrun");
  const Variables by_hand{{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}};
  EXPECT_EQ(said(by_hand), "local rank 1, not by torchrun");
  Variables torchrun = by_hand;
  torchrun["TORCHELASTIC_RUN_ID"] = "none";
  EXPECT_EQ(said(torchrun), "local rank 1, by torchrun");
  EXPECT_EQ(said(slurm_task(2, 4, "a", "7")), "local rank 2, not by torchrun");
}

// A number that is no constant: the local rank that was given.
TEST(ShowConfig, TheConfigurationSaysWhatThisProcessIs) {
  COVERS("I-43");
  const TemporaryFolder folder;
  Job job;
  job.start({"method=file://" + folder.path() + "/meet", "rank=0", "size=1", "local=3", "init", "config", "finalize"});
  job.expect_success();
  EXPECT_EQ(count(job[0].out(), "local rank: 3\n"), 1) << job[0].out();
  EXPECT_EQ(count(job[0].out(), "\nrank: 0\n"), 1) << job[0].out();
}

// tcp:// under torchrun works, with a word about the store that is there already.
TEST(TcpUnderTorchrun, TcpUnderTorchrunWorksAndWarns) {
  COVERS("Q-13", "E-12", "K-44");
  Job job;
  const int port = free_port();
  for (int r = 0; r < 2; ++r) {
    job.start({fmt::format("method=tcp://127.0.0.1:{}", port), fmt::format("rank={}", r), "size=2", "init", "who", "finalize"},
              {{"TORCHELASTIC_RUN_ID", "none"},
               {"TORCHELASTIC_USE_AGENT_STORE", "True"},
               {"MASTER_ADDR", "127.0.0.1"},
               {"MASTER_PORT", "1"},
               {"RANK", std::to_string(r)},
               {"WORLD_SIZE", "2"},
               {"LOCAL_RANK", std::to_string(r)}});
  }
  job.expect_success();
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(line(job[r], "who: "), fmt::format("rank {} of 2, local {} of 2, node 0 of 1, on native, by torchrun", r, r));
    EXPECT_NE(job[r].err().find("torchrun's agent serves a store of its own"), std::string::npos) << job[r].err();
  }
}

}  // namespace
}  // namespace unisono::testing
