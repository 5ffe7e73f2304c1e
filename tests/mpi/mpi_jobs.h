#pragma once

#include <string>
#include <vector>

namespace unisono::testing {

/// The ways in which a rank can come to be part of an MPI.
enum class Starter { mpirun_openmpi, mpirun_mpich, run_openmpi, run_mpich };
std::string name_of(Starter starter);
std::string kind_of(Starter starter);  ///< "openmpi" or "mpich"

/// The reason why it cannot be tested here; empty: it can.
std::string missing_for(Starter starter);

struct Outcome {
  int code = -1;
  std::string out, err;
  int fine = 0;  ///< ranks that said so
};
/// So many ranks of a program. `variables`: on top of the test's own.
Outcome run_ranks(Starter starter, int ranks, std::vector<std::string> program, std::vector<std::string> variables = {});

}  // namespace unisono::testing
