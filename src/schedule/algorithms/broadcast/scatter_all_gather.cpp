// broadcast of many bytes over channels (van de Geijn 1991): the root scatters the elements, and all ranks gather them.
//   rounds   those of scatter_v and all_gather_v: 2 where both are exchanges
//   sent     2 S (P-1)/P, by the root
//   scratch  that of scatter_v and all_gather_v
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

void build_broadcast_scatter_all_gather(const Problem& problem, const Setting& setting, Builder& to) {
  const Counts blocks = shares(problem.count, problem.size);
  const auto own = static_cast<std::size_t>(problem.rank);
  const Slice mine = problem.out.part(blocks.before(own), blocks[own]);
  Problem scatter = move(problem, Operation::scatter_v, problem.in, mine);
  scatter.root = problem.root;
  scatter.counts = blocks;
  scatter.count = problem.count;
  build(scatter, setting, to);
  Problem gather = move(problem, Operation::all_gather_v, mine, problem.out);
  gather.counts = blocks;
  gather.count = problem.count;
  build(gather, setting, to);
}

Cost cost_broadcast_scatter_all_gather(const Problem& problem, const Setting& setting) {
  const std::size_t share = largest_share(problem.count, problem.size);
  return cost_of(move_blocks(problem, Operation::scatter_v, share), setting) + cost_of(move_blocks(problem, Operation::all_gather_v, share), setting);
}

}  // namespace unisono::schedule::algorithms
