// all_to_all in rounds, with blocks of equal or different lengths: in round s every rank sends to the rank s above and receives from the rank s
// below, so that no rank gets from several at once.
//   rounds   P-1
//   sent     S (P-1)/P of the S bytes that every rank gives
//   scratch  none
#include "schedule/algorithms/move/blocks.h"
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

void build_all_to_all_pairwise(const Problem& problem, const Setting&, Builder& to) {
  const Blocks blocks(problem);
  const int rank = problem.rank, size = problem.size;
  for (int step = 1; step < size; ++step) {
    const int target = (rank + step) % size, source = (rank + size - step) % size;
    if (step == 1) to.copy(blocks.incoming(rank), blocks.outgoing(rank));
    to.exchange(problem.level, source, blocks.incoming(source), target, blocks.outgoing(target));
  }
}

Cost cost_all_to_all_pairwise(const Problem& problem, const Setting&) {
  const double others = problem.size - 1, n = static_cast<double>(block_of(problem));
  return evenly({.rounds = others, .messages = others, .path = others * n, .sent = others * n, .copied = n});
}

}  // namespace unisono::schedule::algorithms
