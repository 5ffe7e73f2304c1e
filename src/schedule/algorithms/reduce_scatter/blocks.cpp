// reduce_scatter, with blocks of equal or different lengths: every rank gets all versions of its block and combines them from left to right.
//   rounds   those of all_to_all_v: 1 where it is an exchange
//   sent     S (P-1)/P of the S bytes that every rank gives
//   scratch  P blocks
//   order    once
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

void build_reduce_scatter_blocks(const Problem& problem, const Setting& setting, Builder& to) {
  const Counts blocks = has_counts(problem.operation) ? problem.counts : same(problem.count, problem.size);
  combine(problem, problem.out, collect(problem, setting, blocks, block_of(problem), to), to);
}

Cost cost_reduce_scatter_blocks(const Problem& problem, const Setting& setting) { return cost_of_collecting(problem, setting, block_of(problem)); }

}  // namespace unisono::schedule::algorithms
