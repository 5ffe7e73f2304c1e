// unisono/shared_memory.h: other ranks of the host read buffers in shared memory directly.
#include <unisono/unisono.h>

#include <cstdio>
#include <exception>
#include <memory_resource>

#include "../arguments.h"

constexpr const char* about = "Buffers that the other ranks of the host can reach are read where they lie.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    unisono::Context context;
    const int rank = unisono::rank();

    // This is a std::vector whose memory comes from the pool that this process shares.
    unisono::shared_vector<float> gradients(100000, static_cast<float>(rank + 1));
    for (int step = 0; step < 3; ++step) unisono::all_reduce(gradients, unisono::ReduceOp::max);
    if (rank == 0) std::printf("largest %g\n", static_cast<double>(gradients[99999]));

    const bool is_in_pool = unisono::is_shared(gradients.data(), gradients.size() * sizeof(float));
    std::vector<float> ordinary(1000);
    if (rank == 0)
      std::printf("in the pool: %s, an ordinary vector: %s\n", is_in_pool ? "yes" : "no", unisono::is_shared(ordinary.data(), 4000) ? "yes" : "no");

    // The pool is a memory resource, for containers that take one.
    std::pmr::vector<int> all(static_cast<std::size_t>(unisono::world_size()), unisono::shared_resource());
    unisono::all_gather(std::span<const int>(&rank, 1), all);
    if (rank == 0) std::printf("last %d\n", all.back());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
