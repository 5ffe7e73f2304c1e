// The same with an MPI: joins the job and leaves it; with --facts PIPE it makes one call in between, says what a rank costs, and waits for PIPE.
#include <mpi.h>

#include <vector>

#include "facts.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (const char* const pipe = startup::pipe_of(argc, argv)) {
    std::vector<float> data(startup::numbers, 1.0F), sum(startup::numbers);
    MPI_Allreduce(data.data(), sum.data(), startup::numbers, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    startup::write_facts(pipe);
  }
  MPI_Finalize();
}
