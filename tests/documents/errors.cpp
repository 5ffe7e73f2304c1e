// The blocks of docs/troubleshooting/errors.md, one after the other, as they stand there.
#include "errors.h"

#include <cstdio>

int main() {
  const unisono::Context context;
  std::vector<float> gradients(3, 1);
  run_fragments(gradients);
  const auto ranks = static_cast<float>(unisono::world_size());
  // Summed by the first block, averaged by the others.
  if (gradients != std::vector<float>(3, ranks)) {
    std::fprintf(stderr, "gradients[0] is %g with %g ranks\n", gradients[0], ranks);
    return 1;
  }
  return 0;
}
