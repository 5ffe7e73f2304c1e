// Every block of docs/guide/libtorch-checkpoints.md, one after the other, as they stand there.
#include "libtorch.h"

int main() {
  const unisono::Context context;
  const bool alike = is_alike(after_fragments());
  return alike && std::filesystem::exists("run.pt") ? 0 : 1;
}
