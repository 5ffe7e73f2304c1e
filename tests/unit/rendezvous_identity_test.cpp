// Who a process is, by the variables of whoever started it: E-01 … E-10, E-12, M-32 … M-37, R9.
#include "rendezvous_testing.h"

#include "rendezvous/identity.h"

namespace unisono::rendezvous {
namespace {

TEST(EnvironmentVariables, of_other_launchers_that_contradict_are_refused) {  // R9
  const Variables all = job_variables(1, 2, 12345);
  std::string text = attempt({}, Environment(with(with(all, "SLURM_PROCID", "3"), "SLURM_NTASKS", "2"))).text<InvalidArgument>();
  EXPECT_CONTAINS(text, "1 by RANK");
  EXPECT_CONTAINS(text, "3 by SLURM_PROCID");
  text = attempt({}, Environment(with(with(all, "OMPI_COMM_WORLD_RANK", "1"), "OMPI_COMM_WORLD_SIZE", "4"))).text<InvalidArgument>();
  EXPECT_CONTAINS(text, "2 by WORLD_SIZE");
  EXPECT_CONTAINS(text, "4 by OMPI_COMM_WORLD_SIZE");
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

}  // namespace
}  // namespace unisono::rendezvous
