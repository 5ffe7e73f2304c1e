#pragma once

#include <memory>
#include <string>

#include "harness/candidate.h"

namespace unisono::bench {

/// The functions by which the driver measures an MPI. A module for each ABI has them: compiled for that ABI and linked to no MPI, it is loaded once
/// an MPI is, and finds the MPI's functions among the global ones.
struct MpiPart {
  Place (*join)();
  void (*leave)();
  std::unique_ptr<Candidate> (*candidate)(std::string name, Place place);
  std::string (*version)();  ///< in the MPI's own words
};

/// The function of the module that returns its MpiPart.
inline constexpr const char* mpi_part_entry = "unisono_bench_mpi_part";

}  // namespace unisono::bench
