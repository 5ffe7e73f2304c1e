// In place of launch/mpi/, with UNISONO_BUILD_PMI=OFF.
#include "launch/job/mpi_ranks.h"
#include "launch/process/program.h"

namespace unisono::launcher {

std::unique_ptr<MpiRanks> serve_mpi(const JobOptions& /*options*/, int /*attempt*/, const Hosts& /*hosts*/) {
  throw StartFailed("this build of `unisono run` serves no ranks of MPI (build it with UNISONO_BUILD_PMI=ON, or start the program with mpirun)", 1);
}

}  // namespace unisono::launcher
