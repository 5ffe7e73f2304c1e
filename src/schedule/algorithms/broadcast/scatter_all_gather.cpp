// broadcast of many bytes over channels: the root sends each rank a share, and every rank sends its share to all. The root sends 2 S (P-1)/P bytes
// instead of (P-1) S (van de Geijn 1991).
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
  build_exchange(scatter, setting, to);
  Problem gather = move(problem, Operation::all_gather_v, mine, problem.out);
  gather.counts = blocks;
  gather.count = problem.count;
  build_exchange(gather, setting, to);
}

}  // namespace unisono::schedule::algorithms
