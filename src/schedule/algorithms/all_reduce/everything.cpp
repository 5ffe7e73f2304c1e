// all_reduce of few bytes: every rank gets the whole input of every other and combines it, from left to right. It takes one exchange instead of two.
// A rank sends (P-1) S bytes.
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

void build_all_reduce_everything(const Problem& problem, const Setting& setting, Builder& to) {
  const Slice all = to.scratch(problem.count * static_cast<std::size_t>(problem.size));
  Problem gather = move(problem, Operation::all_gather, problem.in, all);
  gather.count = problem.count;
  build(gather, setting, to);
  combine(problem, problem.out, all, to);
}

}  // namespace unisono::schedule::algorithms
