// all_reduce by shares: every rank gets all versions of its share, combines them from left to right, and sends the result to all. Each element is
// combined by one rank, once, so all ranks get the same bits and halves are rounded once.
//   rounds   those of all_to_all_v and all_gather_v: 2 where both are exchanges
//   sent     2 S (P-1)/P
//   scratch  S and a share
//   order    once
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

void build_all_reduce_shares(const Problem& problem, const Setting& setting, Builder& to) {
  const Counts blocks = shares(problem.count, problem.size);
  const Slice mine = to.scratch(blocks[static_cast<std::size_t>(problem.rank)]);
  combine(problem, mine, collect(problem, setting, blocks, largest_share(problem.count, problem.size), to), to);
  Problem gather = move(problem, Operation::all_gather_v, mine, problem.out);
  gather.counts = blocks;
  gather.count = problem.count;
  build(gather, setting, to);
}

Cost cost_all_reduce_shares(const Problem& problem, const Setting& setting) {
  const std::size_t share = largest_share(problem.count, problem.size);
  Cost cost = cost_of_collecting(problem, setting, share) + cost_of(move_blocks(problem, Operation::all_gather_v, share), setting);
  cost.scratch += reserved(share);
  return cost;
}

}  // namespace unisono::schedule::algorithms
