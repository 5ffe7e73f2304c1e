// unisono/multigpu.h: a process that drives several devices gives one tensor for each of them. Vectors in host memory stand for them here.
#include <unisono/multigpu.h>
#include <unisono/unisono.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <vector>

#include "../arguments.h"

using Tensors = std::vector<std::vector<float>>;

/// Two devices for each rank: device d of rank r has 10 r + d.
Tensors own_tensors(std::size_t elements) {
  const auto rank = static_cast<float>(unisono::rank());
  return {std::vector<float>(elements, 10 * rank), std::vector<float>(elements, 10 * rank + 1)};
}

constexpr const char* about = "Several devices for each process: every call takes a tensor for each of them.";

int main(int argc, char** argv) {
  if (const int code = ended_by_arguments(argc, argv, about); code >= 0) return code;
  try {
    unisono::Context context;
    const auto devices = 2 * static_cast<std::size_t>(unisono::world_size());

    // The first tensor of rank 0 becomes the sum over all devices of all ranks.
    Tensors total = own_tensors(1);
    unisono::reduce_multigpu(total, 0);
    if (unisono::rank() == 0) std::printf("sum over %zu devices: %g\n", devices, static_cast<double>(total[0][0]));

    // Each input has a block for every device of all ranks, and each output becomes the sum of its own blocks.
    const Tensors blocks = own_tensors(devices);
    Tensors own_blocks(2, std::vector<float>(1));
    unisono::reduce_scatter_multigpu(own_blocks, blocks);
    if (unisono::rank() == 0) std::printf("its block of the sum: %g\n", static_cast<double>(own_blocks[1][0]));

    // All of them, and those that from/multigpu.cpp shows, also return at once.
    Tensors first = own_tensors(1), sum = own_tensors(1), at_root = own_tensors(1), gathered(2, std::vector<float>(devices)), scattered = own_blocks;
    const Tensors mine = own_tensors(1);
    std::array works{unisono::broadcast_multigpu_async(first, 0), unisono::all_reduce_multigpu_async(sum), unisono::reduce_multigpu_async(at_root, 0),
                     unisono::all_gather_multigpu_async(gathered, mine), unisono::reduce_scatter_multigpu_async(scattered, blocks)};
    unisono::wait_all(works);
    const bool is_same = sum[0] == sum[1] && scattered == own_blocks && first[1][0] == 0 && (unisono::rank() != 0 || at_root[0] == total[0]);
    if (unisono::rank() == 0) std::printf("later: %s, last %g\n", is_same ? "the same" : "something else", static_cast<double>(gathered[1].back()));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
