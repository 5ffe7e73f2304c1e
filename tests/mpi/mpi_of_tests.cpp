// A library that looks like an MPI to the dynamic linker, and does nothing: built under several sonames. MPI_SAYS: what it answers to whether it has
// been initialised. MPI_LIKE_OPENMPI: it has the symbol by which Open MPI's libraries are told.
#include <cstdlib>

#define MPI_FUNCTION extern "C" [[gnu::visibility("default")]] int

// NOLINTBEGIN(readability-identifier-naming): MPI's own names
MPI_FUNCTION PMPI_Initialized(int* flag) {
  *flag = MPI_SAYS;
  return 0;
}
MPI_FUNCTION PMPI_Finalized(int* flag) {
  *flag = 0;
  return 0;
}
MPI_FUNCTION MPI_Initialized(int* flag) { return PMPI_Initialized(flag); }
MPI_FUNCTION MPI_Finalized(int* flag) { return PMPI_Finalized(flag); }
// Nobody may call these. They are there for programs that are linked to the library.
MPI_FUNCTION MPI_Init(int*, char***) { std::abort(); }
MPI_FUNCTION MPI_Init_thread(int*, char***, int, int*) { std::abort(); }
MPI_FUNCTION MPI_Comm_rank(int, int*) { std::abort(); }
MPI_FUNCTION MPI_Comm_size(int, int*) { std::abort(); }
MPI_FUNCTION MPI_Barrier(int) { std::abort(); }
MPI_FUNCTION MPI_Finalize() { std::abort(); }
// NOLINTEND(readability-identifier-naming)

#ifdef MPI_LIKE_OPENMPI
extern "C" [[gnu::visibility("default")]] int ompi_mpi_comm_world[1];
int ompi_mpi_comm_world[1] = {0};
#endif
