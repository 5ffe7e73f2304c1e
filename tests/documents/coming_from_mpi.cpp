// The blocks of docs/coming-from/mpi.md, one after the other, as they stand there.
#include "coming_from_mpi.h"

std::unique_ptr<unisono::Context> context_of_next_block() {
  constexpr int programs = 2;
  static int block = 0;
  return block++ < programs ? nullptr : std::make_unique<unisono::Context>();
}

int main() {
  run_fragments();
  return 0;
}
