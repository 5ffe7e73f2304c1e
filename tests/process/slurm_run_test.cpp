// `unisono run` without options in a Slurm allocation, with a script in the place of srun, and none of Slurm's other programs.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "base/host.h"
#include "running_command.h"

namespace unisono::testing {
namespace {

using Variables = std::map<std::string, std::string>;

void write_program(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
}

class SlurmAllocation : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::symlink("/bin/sh", (folder_.path() + "/sh").c_str()), 0);  // and nothing else: a Slurm may be installed here
    // What srun does with these options: it starts the words behind them on the node, here.
    write_program(folder_.path() + "/srun",
                  "#!/bin/sh\nnode=\nwhile :; do case $1 in --nodelist=*) node=${1#--nodelist=} ;; -*) ;; *) break ;; esac; shift; done\n"
                  "echo \"srun $node\" >>\"$CALLED\"\nexport SLURM_STEP_ID=3 SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_NUM_NODES=1 SLURM_LOCALID=0\n"
                  "export SLURM_STEP_NODELIST=$node SLURMD_NODENAME=$node\nexec \"$@\"\n");
    write_program(folder_.path() + "/ssh",
                  "#!/bin/sh\nwhile [ $# -gt 2 ]; do shift; done\necho \"ssh $1\" >>\"$CALLED\"\nSLURMD_NODENAME=$1 exec sh -c \"$2\"\n");
  }

  struct Ended {
    int code = 0;
    std::string out, err;
    std::vector<std::string> called;
  };
  /// Runs `unisono run FLAGS`, whose ranks tell where they are, in the shell of an allocation.
  Ended run(Variables variables, const std::vector<std::string>& flags = {}) {
    variables.merge(
        Variables{{"SLURM_JOB_ID", "4711"}, {"MASTER_ADDR", "127.0.0.1"}, {"CALLED", folder_.path() + "/called"}, {"PATH", folder_.path()}});
    const std::ofstream made_empty(folder_.path() + "/called", std::ios::trunc);
    std::vector<std::string> words{"run"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", "sh", "-c", "echo rank $RANK of $WORLD_SIZE, host $GROUP_RANK $SLURMD_NODENAME"});
    RunningCommand command(unisono_command(words), {.environment = variables});
    const int code = command.wait();
    auto called = lines_of(contents(folder_.path() + "/called"));
    std::ranges::sort(called);
    return {code, command.out(), unwrapped(command.err()), called};
  }
  static void expect_lines(const Ended& ended, const std::vector<std::string>& lines) {
    EXPECT_EQ(ended.code, 0) << ended.err;
    auto found = lines_of(ended.out);
    std::ranges::sort(found);
    EXPECT_EQ(found, lines) << ended.err;
  }

  TemporaryFolder folder_;
};

TEST_F(SlurmAllocation, AnAllocationIsUsedWhole) {
  const Ended ended = run({{"SLURM_JOB_NODELIST", "n[08-09].invalid,m.invalid"}, {"SLURM_TASKS_PER_NODE", "2(x2),1"}, {"SLURM_NTASKS", "5"}});
  expect_lines(ended, {"[0] rank 0 of 5, host 0 n08.invalid", "[1] rank 1 of 5, host 0 n08.invalid", "[2] rank 2 of 5, host 1 n09.invalid",
                       "[3] rank 3 of 5, host 1 n09.invalid", "[4] rank 4 of 5, host 2 m.invalid"});
  EXPECT_EQ(ended.called, (std::vector<std::string>{"srun m.invalid", "srun n08.invalid", "srun n09.invalid"}));
}

TEST_F(SlurmAllocation, AnAllocationMayCountItsTasksInOtherWays) {
  const std::string nodes = "n[1-2].invalid";
  const std::vector<std::string> three{"[0] rank 0 of 3, host 0 n1.invalid", "[1] rank 1 of 3, host 0 n1.invalid",
                                       "[2] rank 2 of 3, host 1 n2.invalid"};
  const std::vector<std::string> two{"[0] rank 0 of 2, host 0 n1.invalid", "[1] rank 1 of 2, host 1 n2.invalid"};
  expect_lines(run({{"SLURM_JOB_NODELIST", nodes}, {"SLURM_NTASKS", "3"}}), three);
  expect_lines(run({{"SLURM_NODELIST", nodes}, {"SLURM_NTASKS_PER_NODE", "1"}}), two);
  expect_lines(run({{"SLURM_JOB_NODELIST", nodes}}), two);
}

TEST_F(SlurmAllocation, AnAllocationIsSeenInABatchScriptAndInAnInteractiveStep) {
  Variables job{{"SLURM_JOB_NODELIST", "n[1-2].invalid"},
                {"SLURM_TASKS_PER_NODE", "1(x2)"},
                {"SLURM_PROCID", "0"},
                {"SLURM_NODEID", "0"},
                {"SLURM_LOCALID", "0"}};
  EXPECT_EQ(run(job).called.size(), 2u) << "a batch script";
  job.insert({{"SLURM_STEP_ID", "4294967290"}, {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_NODELIST", "n1.invalid"}});
  EXPECT_EQ(run(job).called.size(), 2u) << "the shell of salloc";
}

TEST_F(SlurmAllocation, AnAllocationIsLeftToOthersWhereTheyHaveDividedIt) {
  Variables job{{"SLURM_JOB_NODELIST", "n[1-2].invalid"}, {"SLURM_TASKS_PER_NODE", "1(x2)"}};
  const std::vector<std::string> here{"[0] rank 0 of 2, host 0", "[1] rank 1 of 2, host 0"};
  const Ended with_option = run(job, {"-n", "2"});
  expect_lines(with_option, here);
  EXPECT_TRUE(with_option.called.empty());
  job.insert({{"SLURM_STEP_ID", "0"},
              {"SLURM_STEP_NUM_NODES", "1"},
              {"SLURM_STEP_NODELIST", "n1.invalid"},
              {"SLURM_PROCID", "0"},
              {"SLURM_NTASKS", "1"},
              {"SLURM_LOCALID", "0"},
              {"SLURM_JOB_NUM_NODES", "2"}});
  const Ended in_a_step = run(job);
  expect_lines(in_a_step, {"[0] rank 0 of 1, host 0"});
  EXPECT_TRUE(in_a_step.called.empty());
}

TEST_F(SlurmAllocation, AnAllocationOfThisHostAloneNeedsNoSrun) {
  const Ended ended = run({{"SLURM_JOB_NODELIST", base::host_name()}, {"SLURM_TASKS_PER_NODE", "3"}});
  expect_lines(ended, {"[0] rank 0 of 3, host 0", "[1] rank 1 of 3, host 0", "[2] rank 2 of 3, host 0"});
  EXPECT_TRUE(ended.called.empty());
}

TEST_F(SlurmAllocation, AnAllocationIsReachedBySshWithoutSrunOrWhereThatIsSaid) {
  const Variables job{{"SLURM_JOB_NODELIST", "n[1-2].invalid"}, {"SLURM_TASKS_PER_NODE", "1(x2)"}};
  const std::vector<std::string> two{"[0] rank 0 of 2, host 0 n1.invalid", "[1] rank 1 of 2, host 1 n2.invalid"};
  const std::vector<std::string> by_ssh{"ssh n1.invalid", "ssh n2.invalid"};
  const Ended said = run(job, {"--ssh", folder_.path() + "/ssh"});
  expect_lines(said, two);
  EXPECT_EQ(said.called, by_ssh);
  ASSERT_EQ(::unlink((folder_.path() + "/srun").c_str()), 0);
  const Ended without = run(job);
  expect_lines(without, two);
  EXPECT_EQ(without.called, by_ssh);
}

TEST_F(SlurmAllocation, AnAllocationIsExaminedWhole) {
  RunningCommand doctor(unisono_command({"doctor", "--json"}), {.environment = {{"SLURM_JOB_ID", "4711"},
                                                                                {"SLURM_JOB_NODELIST", "n[1-2].invalid"},
                                                                                {"SLURM_TASKS_PER_NODE", "1(x2)"},
                                                                                {"CALLED", folder_.path() + "/called"},
                                                                                {"PATH", folder_.path()}}});
  doctor.wait();  // both are this host, which is a finding
  EXPECT_NE(doctor.out().find("\"hosts\": [\n    \"n1.invalid\",\n    \"n2.invalid\"\n  ]"), std::string::npos) << doctor.out() << doctor.err();
  EXPECT_EQ(count(contents(folder_.path() + "/called"), "srun n"), 2);
}

TEST_F(SlurmAllocation, AnAllocationWhoseVariablesContradictIsRefused) {
  const auto refused = [&](const std::string& tasks, const std::string& part) {
    const Ended ended = run({{"SLURM_JOB_NODELIST", "n[1-2].invalid"}, {"SLURM_TASKS_PER_NODE", tasks}});
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_NE(ended.err.find(part), std::string::npos) << ended.err;
    EXPECT_TRUE(ended.called.empty());
  };
  refused("1(x3)", "SLURM_TASKS_PER_NODE 1(x3) is about 3 nodes, and the job has 2");
  refused("2(y3)", "\"2(y3)\" is not a list of numbers of tasks");
  refused("2(x3", "\"2(x3\" is not a list");
  refused("0,1", "\"0,1\" is not a list");
  const Ended list = run({{"SLURM_JOB_NODELIST", "n[1-"}, {"SLURM_TASKS_PER_NODE", "1"}});
  EXPECT_EQ(list.code, 2) << list.err;
  EXPECT_NE(list.err.find("a bracket is not closed"), std::string::npos) << list.err;
}

/// The batch script in docs/guide/several-hosts.md, without the lines that Slurm reads.
TEST_F(SlurmAllocation, AnAllocationRunsTheScriptOfTheDocument) {
  const std::string document = contents(CLUSTERS_DOCUMENT);
  const auto begin = document.find("#!/bin/bash\n#SBATCH");
  ASSERT_NE(begin, std::string::npos);
  write_program(folder_.path() + "/job.sbatch", document.substr(begin, document.find("```", begin) - begin));
  write_program(folder_.path() + "/app", "#!/bin/sh\necho rank $RANK of $WORLD_SIZE on $SLURMD_NODENAME\n");
  ASSERT_EQ(::symlink(UNISONO_COMMAND, (folder_.path() + "/unisono").c_str()), 0);
  RunningCommand job({"/bin/bash", "-c", "cd " + folder_.path() + " && exec ./job.sbatch"}, {.environment = {{"SLURM_JOB_ID", "4711"},
                                                                                                             {"SLURM_JOB_NODELIST", "n[1-2].invalid"},
                                                                                                             {"SLURM_TASKS_PER_NODE", "4(x2)"},
                                                                                                             {"SLURM_PROCID", "0"},
                                                                                                             {"MASTER_ADDR", "127.0.0.1"},
                                                                                                             {"CALLED", folder_.path() + "/called"},
                                                                                                             {"PATH", folder_.path()}}});
  EXPECT_EQ(job.wait(), 0) << job.err();
  for (int rank = 0; rank < 8; ++rank)
    EXPECT_EQ(count(job.out(), fmt::format("[{}] rank {} of 8 on n{}.invalid\n", rank, rank, rank / 4 + 1)), 1) << job.out();
}

}  // namespace
}  // namespace unisono::testing
