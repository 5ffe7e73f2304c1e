// The identity of a process, by the variables of its launcher.
#include "rendezvous/identity.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "covers.h"
#include "rendezvous/launchers.h"
#include "testing.h"

namespace unisono::rendezvous {
namespace {

/// The variables that a launcher sets, and their meaning; -1: it does not say.
struct Source {
  std::string name;
  Variables variables;
  Launcher launcher;
  int rank, world_size, local_rank, local_world_size, node_rank;
};

int value_of(const std::optional<Given>& given) { return given ? given->value : -1; }

class OneLauncher : public testing::TestWithParam<Source> {};

TEST_P(OneLauncher, OneLauncherIsUnderstood) {
  const Source& source = GetParam();
  COVERS("B-05");
  if (source.launcher == Launcher::torchrun) COVERS("E-01", "E-02", "E-03", "M-33", "M-35");
  if (source.launcher == Launcher::openmpi) COVERS("E-10", "M-33", "M-36");
  if (source.launcher == Launcher::slurm) COVERS("M-33", "M-37");
  const Environment environment(source.variables);
  EXPECT_EQ(infer_launcher(environment), source.launcher);
  EXPECT_EQ(launched_as_many(environment), source.world_size > 1);
  const EnvironmentIdentity identity = identity_from_environment(environment);
  EXPECT_EQ(identity.launcher, source.launcher);
  EXPECT_EQ(value_of(identity.rank), source.rank);
  EXPECT_EQ(value_of(identity.world_size), source.world_size);
  EXPECT_EQ(value_of(identity.local_rank), source.local_rank);
  EXPECT_EQ(value_of(identity.local_world_size), source.local_world_size);
  EXPECT_EQ(value_of(identity.node_rank), source.node_rank);
}

const Variables by_hand = {{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}, {"GROUP_RANK", "1"}};
const Variables open_mpi = {{"OMPI_COMM_WORLD_RANK", "5"},
                            {"OMPI_COMM_WORLD_SIZE", "8"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"OMPI_COMM_WORLD_NODE_RANK", "9"}};  // of the process on its node: no number of the node
const Variables mpich = {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "4"}};
const Variables mvapich = {
    {"MV2_COMM_WORLD_RANK", "5"}, {"MV2_COMM_WORLD_SIZE", "8"}, {"MV2_COMM_WORLD_LOCAL_RANK", "1"}, {"MV2_COMM_WORLD_LOCAL_SIZE", "4"}};
const Variables horovod = {
    {"HOROVOD_RANK", "5"}, {"HOROVOD_SIZE", "8"}, {"HOROVOD_LOCAL_RANK", "1"}, {"HOROVOD_LOCAL_SIZE", "4"}, {"HOROVOD_CROSS_RANK", "1"}};
const Variables srun = {{"SLURM_JOB_ID", "12345"}, {"SLURM_PROCID", "5"},        {"SLURM_NTASKS", "8"},           {"SLURM_LOCALID", "1"},
                        {"SLURM_NODEID", "1"},     {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_JOB_NODELIST", "c[1-2]"}};

Variables both(Variables first, const Variables& second) {
  first.insert(second.begin(), second.end());
  return first;
}

INSTANTIATE_TEST_SUITE_P(
    Rows, OneLauncher,
    testing::Values(
        Source{"Nobody", {}, Launcher::none, -1, -1, -1, -1, -1}, Source{"ByHand", by_hand, Launcher::torchrun, 5, 8, 1, 4, 1},
        Source{"Torchrun", with(by_hand, "TORCHELASTIC_RUN_ID", "x"), Launcher::torchrun, 5, 8, 1, 4, 1},
        Source{"Unisono", with(by_hand, "UNISONO_LAUNCHER_FD", "3"), Launcher::unisono, 5, 8, 1, 4, 1},
        Source{"OpenMpi", open_mpi, Launcher::openmpi, 5, 8, 1, 4, -1}, Source{"Mpich", mpich, Launcher::pmi, 5, 8, 1, 4, -1},
        Source{"Mvapich", mvapich, Launcher::pmi, 5, 8, 1, 4, -1}, Source{"Horovod", horovod, Launcher::horovod, 5, 8, 1, 4, 1},
        Source{"Slurm", srun, Launcher::slurm, 5, 8, 1, -1, 1},
        Source{"SlurmWithoutItsJob", without(srun, "SLURM_JOB_ID"), Launcher::slurm, 5, 8, 1, -1, 1},
        Source{"PmixAlone", {{"PMIX_RANK", "5"}}, Launcher::pmi, 5, -1, -1, -1, -1},
        // Numbers that one launcher does not give, another may.
        Source{"PmixUnderSlurm", with(srun, "PMIX_RANK", "5"), Launcher::slurm, 5, 8, 1, -1, 1},
        Source{"PmixAndHorovod", with(horovod, "PMIX_RANK", "5"), Launcher::pmi, 5, 8, 1, 4, 1},
        Source{"PmiOfSlurm", both(srun, {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}}), Launcher::slurm, 5, 8, 1, -1, 1},
        // Rank, world size and local rank together are of an inner launcher; the outer one speaks of another process.
        Source{"MpirunInsideSlurm", both(open_mpi, with(with(srun, "SLURM_PROCID", "0"), "SLURM_NTASKS", "2")), Launcher::openmpi, 5, 8, 1, 4, -1},
        Source{"HydraInsideSlurm", both(mpich, with(with(srun, "SLURM_PROCID", "1"), "SLURM_NTASKS", "2")), Launcher::pmi, 5, 8, 1, 4, -1},
        Source{"TorchrunInsideSlurm", both(with(by_hand, "TORCHELASTIC_RUN_ID", "x"), with(srun, "SLURM_PROCID", "1")), Launcher::torchrun, 5, 8, 1,
               4, 1},
        Source{"OursInsideSlurm", both(with(by_hand, "UNISONO_LAUNCHER_FD", "3"), with(srun, "SLURM_PROCID", "0")), Launcher::unisono, 5, 8, 1, 4, 1},
        Source{"ByHandInsideMpirun", both(by_hand, with(open_mpi, "OMPI_COMM_WORLD_RANK", "0")), Launcher::torchrun, 5, 8, 1, 4, 1},
        // Half of ours, exported for another launcher's processes.
        Source{"WorldSizeBesideMpi", with(open_mpi, "WORLD_SIZE", "8"), Launcher::openmpi, 5, 8, 1, 4, -1},
        // An allocation, but none of its tasks.
        Source{"ShellOfAnAllocation",
               {{"SLURM_JOB_ID", "1"}, {"SLURM_JOB_NODELIST", "a"}, {"SLURM_JOB_NUM_NODES", "1"}},
               Launcher::none,
               -1,
               -1,
               -1,
               -1,
               -1}),
    [](const auto& one) { return one.param.name; });

// R9: two launchers that both speak of this process and differ; each says which variable and which number.
struct Contradiction {
  std::string name;
  Variables variables;
  std::vector<std::string> said;
};
class Contradicting : public testing::TestWithParam<Contradiction> {};

TEST_P(Contradicting, LaunchersAreRefusedWithBothSources) {
  COVERS("K-17", "Q-10", "B-05");
  try {
    identity_from_environment(Environment(GetParam().variables));
    ADD_FAILURE() << "no error";
  } catch (const InvalidArgument& error) {
    for (const std::string& part : GetParam().said) EXPECT_CONTAINS(error.what(), part);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, Contradicting,
    testing::Values(
        Contradiction{"RankAndMpi",
                      both(without(by_hand, "LOCAL_RANK"), with(open_mpi, "OMPI_COMM_WORLD_RANK", "4")),
                      {"5 by RANK", "4 by OMPI_COMM_WORLD_RANK"}},
        Contradiction{"SizeAndMpi",
                      both(without(by_hand, "LOCAL_RANK"), with(open_mpi, "OMPI_COMM_WORLD_SIZE", "9")),
                      {"8 by WORLD_SIZE", "9 by OMPI_COMM_WORLD_SIZE"}},
        Contradiction{"RankAndPmi", both(without(by_hand, "LOCAL_RANK"), with(mpich, "PMI_RANK", "4")), {"5 by RANK", "4 by PMI_RANK"}},
        Contradiction{"RankAndMvapich",
                      both(without(by_hand, "LOCAL_RANK"), with(mvapich, "MV2_COMM_WORLD_SIZE", "4")),
                      {"8 by WORLD_SIZE", "4 by MV2_COMM_WORLD_SIZE"}},
        Contradiction{"RankAndHorovod", both(without(by_hand, "LOCAL_RANK"), with(horovod, "HOROVOD_RANK", "4")), {"5 by RANK", "4 by HOROVOD_RANK"}},
        Contradiction{"RankAndSlurm", both(without(by_hand, "LOCAL_RANK"), with(srun, "SLURM_PROCID", "4")), {"5 by RANK", "4 by SLURM_PROCID"}},
        Contradiction{
            "SizeAndSlurm", both(without(by_hand, "LOCAL_RANK"), with(srun, "SLURM_NTASKS", "9")), {"8 by WORLD_SIZE", "9 by SLURM_NTASKS"}},
        Contradiction{"PmixAndSlurm", with(srun, "PMIX_RANK", "3"), {"3 by PMIX_RANK", "5 by SLURM_PROCID"}},
        Contradiction{"PmiAndSlurm", both(srun, {{"PMI_RANK", "5"}, {"PMI_SIZE", "2"}}), {"2 by PMI_SIZE", "8 by SLURM_NTASKS"}},
        Contradiction{"HorovodAndSlurm", both(with(horovod, "HOROVOD_SIZE", "2"), srun), {"2 by HOROVOD_SIZE", "8 by SLURM_NTASKS"}},
        Contradiction{"ExportedSizeAndMpi",
                      with(without(open_mpi, "OMPI_COMM_WORLD_LOCAL_RANK"), "WORLD_SIZE", "2"),
                      {"2 by WORLD_SIZE", "8 by OMPI_COMM_WORLD_SIZE"}}),
    [](const auto& one) { return one.param.name; });

// The program's numbers must be those of MPI's launcher.
TEST(Arguments, ContradictingTheLauncherAreRefused) {
  COVERS("K-17", "Q-10", "M-36");
  EXPECT_CONTAINS(attempt({.world_size = 2}, Environment(open_mpi)).text<InvalidArgument>(),
                  "world size is 2 by the argument world_size, but 8 by OMPI_COMM_WORLD_SIZE");
  EXPECT_CONTAINS(attempt({.rank = 0}, Environment(mpich)).text<InvalidArgument>(), "rank is 0 by the argument rank, but 5 by PMI_RANK");
  EXPECT_CONTAINS(attempt({}, Environment(open_mpi)).text<InvalidArgument>(), "MASTER_PORT is not set");
}

// Half of what is needed is an error that says which half is missing.
TEST(HalfSet, AHalfSetOfVariablesNamesWhatIsMissing) {
  COVERS("E-04");
  const auto refused = [](const Variables& variables) { return attempt({.timeout = 10s}, Environment(variables)).text<InvalidArgument>(); };
  EXPECT_CONTAINS(refused({{"RANK", "1"}}), "WORLD_SIZE is not set");
  EXPECT_CONTAINS(refused({{"WORLD_SIZE", "2"}}), "RANK is not set");
  EXPECT_CONTAINS(refused({{"LOCAL_RANK", "0"}}), "RANK and WORLD_SIZE are not set");
  EXPECT_CONTAINS(refused({{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}), "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE are not set");
  EXPECT_CONTAINS(refused({{"OMPI_COMM_WORLD_RANK", "0"}}), "OMPI_COMM_WORLD_SIZE is not set");
  EXPECT_CONTAINS(refused({{"PMI_RANK", "0"}}), "PMI_SIZE is not set");
  EXPECT_CONTAINS(refused({{"PMIX_RANK", "0"}}), "WORLD_SIZE is not set");
  EXPECT_CONTAINS(refused({{"MV2_COMM_WORLD_RANK", "0"}}), "MV2_COMM_WORLD_SIZE is not set");
  EXPECT_CONTAINS(refused({{"HOROVOD_RANK", "0"}}), "HOROVOD_SIZE is not set");
  EXPECT_CONTAINS(refused({{"TORCHELASTIC_RUN_ID", "x"}}), "RANK and WORLD_SIZE are not set");
}

TEST(Numbers, TextsThatAreNoNumbersAreNamed) {
  for (const auto& [variables, name] :
       std::vector<std::pair<Variables, std::string>>{{with(by_hand, "RANK", "five"), "RANK"},
                                                      {with(open_mpi, "OMPI_COMM_WORLD_SIZE", "8x"), "OMPI_COMM_WORLD_SIZE"},
                                                      {with(mpich, "MPI_LOCALRANKID", "1.5"), "MPI_LOCALRANKID"},
                                                      {with(srun, "SLURM_NTASKS", "many"), "SLURM_NTASKS"}}) {
    EXPECT_CONTAINS(attempt({}, Environment(variables)).text<InvalidArgument>(), name);
  }
}

// A launcher's variables count only where they tell of this very rank.
TEST(LocalRank, TheLocalRankIsTakenFromTheSourceOfTheRank) {
  COVERS("C-16", "S-09", "I-52");
  const auto of = [](const Variables& variables) { return local_rank_from_environment(Environment(variables), 5, 8); };
  EXPECT_EQ(of({}), std::nullopt);
  for (const Variables& variables : {by_hand, open_mpi, mpich, mvapich, horovod, srun}) EXPECT_EQ(of(variables), 1);
  EXPECT_EQ(of(with(srun, "LOCAL_RANK", "3")), 3);
  EXPECT_EQ(of(with(srun, "SLURM_PROCID", "0")), std::nullopt);
  EXPECT_EQ(of(with(open_mpi, "OMPI_COMM_WORLD_SIZE", "2")), std::nullopt);
}

// Every variable that the library reads is written down, and the one table knows those of the launchers.
TEST(Documentation, TheDocumentationListsEveryVariableThatIsRead) {
  const std::filesystem::path root = UNISONO_SOURCE_DIR;
  std::ostringstream text;
  text << std::ifstream(root / "docs/guide/environment.md").rdbuf();
  const std::string documented = text.str();
  ASSERT_FALSE(documented.empty());
  for (const std::string_view name : variables_read()) EXPECT_NE(documented.find(fmt::format("`{}`", name)), std::string::npos) << name;
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "src")) {
    if (entry.path().extension() != ".cpp") continue;
    std::ostringstream source;
    source << std::ifstream(entry.path()).rdbuf();
    const std::string code = source.str();
    for (const std::string_view reading : {"get(\"", "get_int(\"", "has(\""}) {
      for (std::size_t at = code.find(reading); at != std::string::npos; at = code.find(reading, at + 1)) {
        const std::size_t begin = at + reading.size();
        const std::string name = code.substr(begin, code.find('"', begin) - begin);
        if (name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != std::string::npos || name.size() < 2) continue;  // a key of a store
        ++found;
        EXPECT_NE(documented.find(fmt::format("`{}`", name)), std::string::npos) << name << " in " << entry.path();
      }
    }
  }
  EXPECT_GT(found, 20U);
}

TEST(EnvironmentVariables, VariablesOfOtherLaunchersThatContradictAreRefused) {  // R9
  const Variables all = job_variables(1, 2, 12345);
  std::string text = attempt({}, Environment(with(with(all, "SLURM_PROCID", "3"), "SLURM_NTASKS", "2"))).text<InvalidArgument>();
  EXPECT_CONTAINS(text, "1 by RANK");
  EXPECT_CONTAINS(text, "3 by SLURM_PROCID");
  text = attempt({}, Environment(with(with(all, "OMPI_COMM_WORLD_RANK", "1"), "OMPI_COMM_WORLD_SIZE", "4"))).text<InvalidArgument>();
  EXPECT_CONTAINS(text, "2 by WORLD_SIZE");
  EXPECT_CONTAINS(text, "4 by OMPI_COMM_WORLD_SIZE");
}

TEST(InferLauncher, TheLauncherIsInferredInOrder) {
  COVERS("M-32");
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

TEST(LaunchedAsMany, AProcessIsLaunchedAsOneOfManyWhereTheEnvironmentSaysSo) {  // rule 3
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

}  // namespace
}  // namespace unisono::rendezvous
