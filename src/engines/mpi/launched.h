#pragma once

#include <cstdlib>
#include <string_view>

namespace unisono::engines::mpi {

inline bool has_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

/// Returns true where a launcher of that kind of MPI started this process as a rank. `unisono run` may serve both.
inline bool started_by(std::string_view launcher) {
  if (launcher == "openmpi") return has_variable("OMPI_COMM_WORLD_SIZE") || has_variable("PMIX_NAMESPACE") || has_variable("PMIX_RANK");
  return has_variable("PMI_FD") || has_variable("PMI_PORT") || (has_variable("PMI_RANK") && has_variable("PMI_SIZE"));
}

}  // namespace unisono::engines::mpi
