// reduce on a binomial tree over ranges of neighbouring ranks (tree.h), whose partial sums are joined two by two.
//   rounds   ceil(log2 P)
//   sent     S
//   scratch  2 S; S on the root
//   order    sums of neighbours, lower ranks on the left
#include "schedule/algorithms/tree.h"

namespace unisono::schedule::algorithms {

void build_reduce_binomial(const Problem& problem, const Setting&, Builder& to) {
  const RangeTree tree(problem.rank, problem.size, problem.root);
  Slice mine = problem.in;
  if (!tree.children.empty()) {
    const Slice received = to.scratch(problem.count);
    const Slice sum = problem.is_root() ? problem.out : to.scratch(problem.count);
    for (const Branch& child : tree.children) {
      to.receive(problem.level, child.peer, received);
      to.next_wave();
      combine_two(problem, sum, mine, received, child.first < problem.rank, to);
      mine = sum;
    }
  }
  if (problem.is_root()) return finish_average(problem, mine, to);
  to.send(problem.level, tree.parent.peer, mine);
  to.next_wave();
}

Cost cost_reduce_binomial(const Problem& problem, const Setting&) {
  const double rounds = doublings(problem.size), n = static_cast<double>(problem.count);
  const double others = (problem.size - 1.0) / problem.size;
  return {.rounds = rounds,
          .messages = rounds,
          .path = rounds * n,
          .sent = n,
          .mean_messages = others,
          .mean_sent = others * n,
          .reduced = rounds * n,
          .scratch = (problem.size > 2 ? 2 : 1) * reserved(problem.count)};
}

}  // namespace unisono::schedule::algorithms
