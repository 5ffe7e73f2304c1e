// all_reduce of few bytes: every rank gets the whole input of every other and combines it, from left to right.
//   rounds   those of all_gather: 1 where it is an exchange
//   sent     (P-1) S
//   scratch  P S, and that of all_gather
//   order    once
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

void build_all_reduce_everything(const Problem& problem, const Setting& setting, Builder& to) {
  const Slice all = to.scratch(problem.count * static_cast<std::size_t>(problem.size));
  Problem gather = move(problem, Operation::all_gather, problem.in, all);
  gather.count = problem.count;
  build(gather, setting, to);
  combine(problem, problem.out, all, to);
}

Cost cost_all_reduce_everything(const Problem& problem, const Setting& setting) {
  Cost cost = cost_of(move_blocks(problem, Operation::all_gather, problem.count), setting);
  cost.reduced = static_cast<double>(problem.count) * (problem.size - 1);
  cost.scratch += reserved(problem.count * static_cast<std::size_t>(problem.size));
  return cost;
}

}  // namespace unisono::schedule::algorithms
