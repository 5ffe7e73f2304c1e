// reduce_scatter on a ring, with blocks of equal or different lengths: partial sums of each block go around, and end at the rank that it belongs to.
//   rounds   P-1
//   sent     S (P-1)/P of the S bytes that every rank gives
//   scratch  two blocks
//   order    block b is summed from rank b + 1 on around the ring to rank b
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

void build_reduce_scatter_ring(const Problem& problem, const Setting&, Builder& to) {
  sum_around(problem, Partition::blocks_of(problem), problem.out, to);
  finish_average(problem, problem.out, to);
}

Cost cost_reduce_scatter_ring(const Problem& problem, const Setting&) {
  const std::size_t block = block_of(problem);
  const double others = problem.size - 1, n = static_cast<double>(block);
  return evenly(
      {.rounds = others, .messages = others, .path = others * n, .sent = others * n, .reduced = others * n, .scratch = 2 * reserved(block)});
}

}  // namespace unisono::schedule::algorithms
