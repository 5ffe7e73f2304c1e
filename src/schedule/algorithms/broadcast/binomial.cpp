// broadcast on a binomial tree: in each round every rank that has the elements sends them to one that has not.
//   rounds   ceil(log2 P)
//   sent     S ceil(log2 P), by the root
//   scratch  none
#include "schedule/algorithms/tree.h"

namespace unisono::schedule::algorithms {

void build_broadcast_binomial(const Problem& problem, const Setting&, Builder& to) {
  const RangeTree tree(problem.rank, problem.size, problem.root);
  if (!problem.is_root()) to.receive(problem.level, tree.parent.peer, problem.out);
  to.next_wave();
  for (std::size_t i = tree.children.size(); i-- > 0;) {
    to.send(problem.level, tree.children[i].peer, problem.is_root() ? problem.in : problem.out);
    to.next_wave();
  }
  if (problem.is_root()) to.copy(problem.out, problem.in);
  to.next_wave();
}

Cost cost_broadcast_binomial(const Problem& problem, const Setting&) {
  const double rounds = doublings(problem.size), n = static_cast<double>(problem.count);
  const double others = (problem.size - 1.0) / problem.size;
  return {.rounds = rounds,
          .messages = rounds,
          .path = rounds * n,
          .sent = rounds * n,
          .mean_messages = others,
          .mean_sent = others * n,
          .mean_copied = n / problem.size,
          .copied = n};
}

}  // namespace unisono::schedule::algorithms
