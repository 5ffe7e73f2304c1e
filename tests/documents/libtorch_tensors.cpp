// Every block of docs/guide/libtorch-tensors.md, one after the other, as they stand there.
#include "libtorch.h"

int main() {
  const unisono::Context context;
  for (const auto& parameter : after_fragments()->parameters()) {
    if (!unisono::is_shared(parameter)) return 1;  // moved by one of the blocks
  }
  return 0;
}
