// The blocks of docs/guide/elastic.md, one after the other, as they stand there.
#include "elastic.h"

#include <cstdio>

int main() {
  const unisono::Context context;
  unisono::ElasticState training;
  std::vector<int> sums(3);
  training.buffer("sums", sums);
  run_fragments(training, 5, [&](const unisono::ProcessGroup& group) {
    std::vector<int> ranks(sums.size(), group.rank() + 1);
    unisono::all_reduce(ranks, unisono::ReduceOp::sum, group);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += ranks[i];
  });
  const int size = unisono::world_size();
  if (training.step != 5 || sums != std::vector<int>(3, 5 * size * (size + 1) / 2)) {
    std::fprintf(stderr, "%d after %d steps of %d ranks\n", sums[0], static_cast<int>(training.step), size);
    return 1;
  }
  return 0;
}
