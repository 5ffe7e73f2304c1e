// Every rank says hello, and all ranks compute a sum together. Runs alone, and under `unisono run -n 4 -- 01_hello`.
#include <unisono/unisono.h>

#include <cstdio>
#include <exception>
#include <vector>

#include "../arguments.h"

constexpr const char* about = "Who is there, and one sum over all ranks. Runs alone, and under `unisono run -n 4 -- 01_hello`.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    unisono::Context context;  // joins the job, leaves it at the end of the scope
    const int rank = unisono::rank();
    const int ranks = unisono::world_size();
    std::printf("hello from rank %d of %d\n", rank, ranks);

    // all_reduce works on a buffer in place: on every rank it becomes the sum of all ranks' vectors, element by element.
    std::vector<float> squares{static_cast<float>(rank), static_cast<float>(rank * rank)};
    unisono::all_reduce(squares);

    // A value is returned: the largest of all ranks' values.
    const int largest = unisono::all_reduce(10 * rank, unisono::ReduceOp::max);

    if (rank == 0) std::printf("sum of ranks %g, of their squares %g, largest value %d\n", squares[0], squares[1], largest);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
