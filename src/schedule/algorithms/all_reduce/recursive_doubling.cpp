// all_reduce by recursive doubling (Rabenseifner and Träff 2004): in each round two ranks exchange their partial sums, so that the sums double in
// size. With P ranks, of which 2^L are the core (parts.h), and f = 1 where P > 2^L:
//   rounds   L + 2 f
//   sent     (L + f) S
//   scratch  S
//   order    sums of neighbours, lower ranks on the left; both ranks of a pair combine in the same order
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

void build_all_reduce_recursive_doubling(const Problem& problem, const Setting&, Builder& to) {
  const Core core(problem.size);
  const int rank = problem.rank;
  if (core.is_outside(rank)) return be_stood_for(problem, to);
  const Slice received = to.scratch(problem.count);
  Slice mine = add_charge(problem, core, problem.in, received, problem.out, to);
  const int member = core.from_rank(rank);
  for (int mask = 1; mask < core.size; mask <<= 1) {
    const int peer = core.to_rank(member ^ mask);
    to.exchange(problem.level, peer, received, peer, mine);
    combine_two(problem, problem.out, mine, received, (member & mask) != 0, to);
    mine = problem.out;
  }
  finish_average(problem, problem.out, to);
  if (core.has_charge(rank)) to.send(problem.level, rank + 1, problem.out);
  to.next_wave();
}

Cost cost_all_reduce_recursive_doubling(const Problem& problem, const Setting&) {
  const Core core(problem.size);
  const auto n = static_cast<double>(problem.count);
  const int steps = core.steps(), folds = core.folds();
  const double each = (core.size * steps + 2.0 * core.extra) / problem.size;
  return {.rounds = steps + 2.0 * folds,
          .messages = static_cast<double>(steps + folds),
          .path = (steps + 2 * folds) * n,
          .sent = (steps + folds) * n,
          .mean_messages = each,
          .mean_sent = each * n,
          .reduced = (steps + folds) * n,
          .scratch = reserved(problem.count)};
}

}  // namespace unisono::schedule::algorithms
