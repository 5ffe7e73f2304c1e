// all_reduce on a ring (Patarasuk and Yuan 2009): partial sums of P blocks go around, and then the finished blocks do.
//   rounds   2 (P-1)
//   sent     2 S (P-1)/P
//   scratch  2 S/P
//   order    block b is summed from rank b + 1 on around the ring to rank b: each block by one rank after the other, so all ranks get the same bits
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

void build_all_reduce_ring(const Problem& problem, const Setting&, Builder& to) {
  const Partition blocks = Partition::even(problem.count, problem.size);
  const Slice own = blocks.part(problem.out, problem.rank);
  sum_around(problem, blocks, own, to);
  finish_average(problem, own, to);
  pass_around(problem, blocks, problem.out, to);
}

Cost cost_all_reduce_ring(const Problem& problem, const Setting&) {
  const std::size_t block = largest_share(problem.count, problem.size);
  const double others = problem.size - 1, n = static_cast<double>(block);
  return evenly({.rounds = 2 * others,
                 .messages = 2 * others,
                 .path = 2 * others * n,
                 .sent = 2 * others * n,
                 .reduced = others * n,
                 .scratch = 2 * reserved(block)});
}

}  // namespace unisono::schedule::algorithms
