// all_gather on a ring, with blocks of equal or different lengths: each block is passed on from rank to rank.
//   rounds   P-1
//   sent     S (P-1)/P of the S bytes that every rank gets
//   scratch  none
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

void build_all_gather_ring(const Problem& problem, const Setting&, Builder& to) {
  const Partition blocks = Partition::blocks_of(problem);
  to.copy(blocks.part(problem.out, problem.rank), problem.in);
  to.next_wave();
  pass_around(problem, blocks, problem.out, to);
}

Cost cost_all_gather_ring(const Problem& problem, const Setting&) {
  const double others = problem.size - 1, n = static_cast<double>(block_of(problem));
  return evenly({.rounds = others, .messages = others, .path = others * n, .sent = others * n, .copied = n});
}

}  // namespace unisono::schedule::algorithms
