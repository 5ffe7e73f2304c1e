// reduce_scatter, with blocks of equal or different lengths: every rank gets all versions of its block and combines them from left to right. A rank
// sends the blocks of the others: S (P-1)/P bytes.
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

void build_reduce_scatter_blocks(const Problem& problem, const Setting& setting, Builder& to) {
  const Counts blocks = has_counts(problem.operation) ? problem.counts : same(problem.count, problem.size);
  combine(problem, problem.out, collect(problem, setting, blocks, to), to);
}

}  // namespace unisono::schedule::algorithms
