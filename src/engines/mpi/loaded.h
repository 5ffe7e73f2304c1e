#pragma once

#include <memory>
#include <string>
#include <vector>

namespace unisono::engines::mpi {

/// What programs, and our parts, are compiled for: libraries of one ABI can take each other's place.
enum class Abi {
  openmpi,   ///< libmpi.so.40: Open MPI 3 to 5
  mpich,     ///< libmpi.so.12 and libmpich.so.12: MPICH, Intel MPI, MVAPICH and their like
  standard,  ///< libmpi_abi.so: the ABI of MPI 5, of whichever implementation
  unknown,
};

/// An MPI that this process has loaded, by whatever name. It stays loaded as long as this object lives.
struct LoadedMpi {
  Abi abi = Abi::unknown;
  std::string path = {};               ///< by which the dynamic linker knows it
  std::shared_ptr<void> handle = {};   ///< of dlopen
  const void* object = nullptr;        ///< the dynamic linker's own description of it
  int (*initialized)(int*) = nullptr;  ///< its MPI_Initialized
  int (*finalized)(int*) = nullptr;    ///< its MPI_Finalized

  /// Returns true between its MPI_Init and its MPI_Finalize.
  bool is_initialized() const;
};

/// Returns the MPIs that this process has loaded, one that is initialised first. Nothing is loaded for it. A library counts that defines MPI's
/// functions itself: Open MPI's library for Fortran is none.
std::vector<LoadedMpi> loaded_mpis();

/// Returns true if the program has loaded and initialized an MPI. It is looked for whenever a library has been loaded since the last look.
bool is_in_use();

/// Returns the path of the library from which a module that is linked to no MPI would take MPI's functions if it were loaded now, where that is
/// another one than `mpi`; else nothing.
std::string bound_instead_of(const LoadedMpi& mpi);

}  // namespace unisono::engines::mpi
