// reduce by shares: every rank gets all versions of its share, combines them from left to right, and sends the result to the root. A rank sends S
// (P-1)/P bytes, and one that is not the root S/P more.
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

void build_reduce_shares(const Problem& problem, const Setting& setting, Builder& to) {
  const Counts blocks = shares(problem.count, problem.size);
  const Slice mine = to.scratch(blocks[static_cast<std::size_t>(problem.rank)]);
  combine(problem, mine, collect(problem, setting, blocks, to), to);
  Problem gather = move(problem, Operation::gather_v, mine, problem.is_root() ? problem.out : problem.out.part(0, 0));
  gather.root = problem.root;
  gather.counts = blocks;
  gather.count = problem.count;
  build(gather, setting, to);
}

}  // namespace unisono::schedule::algorithms
