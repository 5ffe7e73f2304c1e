// all_gather by recursive doubling: in each round two ranks exchange all blocks that they have, directly to their places. With P ranks, of which 2^L
// are the core (parts.h), and f = 1 where P > 2^L:
//   rounds   L + 2 f
//   sent     up to S (P-1)/P of the S bytes that every rank gets; twice as much where f = 1. Every rank receives every block once
//   scratch  none
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

void build_all_gather_recursive_doubling(const Problem& problem, const Setting&, Builder& to) {
  const Core core(problem.size);
  const Partition blocks = Partition::blocks_of(problem);
  const int rank = problem.rank;
  if (core.is_outside(rank)) {
    to.send(problem.level, rank - 1, problem.in);
    to.next_wave();
    to.receive(problem.level, rank - 1, blocks.range(problem.out, 0, rank));
    to.receive(problem.level, rank - 1, blocks.range(problem.out, rank + 1, problem.size));
    to.copy(blocks.part(problem.out, rank), problem.in);
    to.next_wave();
    return;
  }
  to.copy(blocks.part(problem.out, rank), problem.in);
  if (core.has_charge(rank)) to.receive(problem.level, rank + 1, blocks.part(problem.out, rank + 1));
  to.next_wave();
  const auto range = [&](int first, int n) { return blocks.range(problem.out, core.to_rank(first), core.to_rank(first + n)); };
  const int member = core.from_rank(rank);
  for (int mask = 1; mask < core.size; mask <<= 1) {
    const int first = member & ~(mask - 1);
    const int peer = core.to_rank(member ^ mask);
    to.exchange(problem.level, peer, range(first ^ mask, mask), peer, range(first, mask));
  }
  if (core.has_charge(rank)) {
    to.send(problem.level, rank + 1, blocks.range(problem.out, 0, rank + 1));
    to.send(problem.level, rank + 1, blocks.range(problem.out, rank + 2, problem.size));
  }
  to.next_wave();
}

Cost cost_all_gather_recursive_doubling(const Problem& problem, const Setting&) {
  const Core core(problem.size);
  const int steps = core.steps(), folds = core.folds();
  const auto block = static_cast<double>(block_of(problem));
  double exchanged = 0;  // the blocks of the first members, which stand for others
  for (int mask = 1; mask < core.size; mask <<= 1) exchanged += core.to_rank(mask);
  return {.rounds = steps + 2.0 * folds,
          .messages = steps + 2.0 * folds,
          .path = (exchanged + folds * problem.size) * block,
          .sent = (exchanged + folds * (problem.size - 1)) * block,
          .mean_messages = (core.size * steps + 3.0 * core.extra) / problem.size,
          .mean_sent = (core.size * exchanged + core.extra * problem.size) * block / problem.size,
          .mean_copied = block,
          .copied = block};
}

}  // namespace unisono::schedule::algorithms
