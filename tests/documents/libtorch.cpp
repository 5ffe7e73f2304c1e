// Every block of docs/guide/libtorch.md that is no whole program, one after the other, as they stand there.
#include "libtorch.h"

int main() {
  const unisono::Context context;
  return is_alike(after_fragments()) ? 0 : 1;
}
