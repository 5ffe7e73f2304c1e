//   torch_checkpoint_compare A B
// Two checkpoints of the example digits-torch: prints the largest difference between their weights.
#include <cstdio>
#include <exception>

#include "../../examples/torch/digits/digits.h"
#include "unisono/torch/checkpoint.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const Net first, second;
    const unisono::TrainingState a = unisono::load_checkpoint(argv[1], first), b = unisono::load_checkpoint(argv[2], second);
    double largest = 0, weight = 0;
    for (const auto& entry : first->named_parameters()) {
      largest = std::max(largest, (entry.value() - second->named_parameters()[entry.key()]).abs().max().item<double>());
      weight = std::max(weight, entry.value().abs().max().item<double>());
    }
    std::printf("largest difference: %.9f of weights up to %.3f after %lld and %lld steps\n", largest, weight, static_cast<long long>(a.step),
                static_cast<long long>(b.step));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
