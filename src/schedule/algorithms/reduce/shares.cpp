// reduce by shares: every rank gets all versions of its share, combines them from left to right, and sends the result to the root.
//   rounds   those of all_to_all_v and gather_v: 2 where both are exchanges
//   sent     S (P-1)/P, and S/P more by ranks that are not the root
//   scratch  S and a share
//   order    once
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

void build_reduce_shares(const Problem& problem, const Setting& setting, Builder& to) {
  const Counts blocks = shares(problem.count, problem.size);
  const Slice mine = to.scratch(blocks[static_cast<std::size_t>(problem.rank)]);
  combine(problem, mine, collect(problem, setting, blocks, largest_share(problem.count, problem.size), to), to);
  Problem gather = move(problem, Operation::gather_v, mine, problem.is_root() ? problem.out : problem.out.part(0, 0));
  gather.root = problem.root;
  gather.counts = blocks;
  gather.count = problem.count;
  build(gather, setting, to);
}

Cost cost_reduce_shares(const Problem& problem, const Setting& setting) {
  const std::size_t share = largest_share(problem.count, problem.size);
  Cost cost = cost_of_collecting(problem, setting, share) + cost_of(move_blocks(problem, Operation::gather_v, share), setting);
  cost.scratch += reserved(share);
  return cost;
}

}  // namespace unisono::schedule::algorithms
