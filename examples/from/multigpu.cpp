// Processes with several GPUs each: every call takes a list of tensors, one for each of the process's devices. multigpu.py is the same in Python.
//   unisono run -n 2 -- from-multigpu
// Here the tensors are vectors in host memory; views of device memory (TensorView, at::Tensor) are given in the same way.
#include <unisono/multigpu.h>
#include <unisono/unisono.h>

#include <cstdio>
#include <vector>

using Tensors = std::vector<std::vector<float>>;

int main() {
  const unisono::Context context;
  const auto rank = static_cast<float>(unisono::rank());

  // Rank 0 has 1 and 2, rank 1 has 11 and 12: all four become the sum.
  Tensors tensors{{10 * rank + 1}, {10 * rank + 2}};
  unisono::all_reduce_multigpu(tensors);
  std::printf("rank %d: %g %g\n", unisono::rank(), tensors[0][0], tensors[1][0]);

  // The first tensor of rank 1 goes into all tensors of all ranks.
  tensors = {{10 * rank + 3}, {10 * rank + 4}};
  unisono::broadcast_multigpu(tensors, 1);
  std::printf("rank %d: %g %g\n", unisono::rank(), tensors[0][0], tensors[1][0]);

  // Each output gets the tensors of all ranks, one behind the other: tensor j of rank k is number k * 2 + j.
  const Tensors mine{{10 * rank + 5}, {10 * rank + 6}};
  Tensors all(2, std::vector<float>(4));
  unisono::all_gather_multigpu(all, mine);
  std::printf("rank %d: %g %g %g %g\n", unisono::rank(), all[1][0], all[1][1], all[1][2], all[1][3]);
}
