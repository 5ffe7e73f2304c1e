// all_reduce by halving and doubling (Rabenseifner 2004): neighbours exchange halves of their vectors, then pairs of neighbours quarters, and so on;
// then the finished parts come back the same way. With P ranks, of which 2^L are the core (parts.h), and f = 1 where P > 2^L:
//   rounds   2 L + 2 f
//   sent     2 S (2^L - 1)/2^L + f S
//   scratch  S/2, or S where f = 1
//   order    sums of neighbours, lower ranks on the left; each element is finished by one rank
#include "schedule/algorithms/halving_doubling.h"

namespace unisono::schedule::algorithms {

void build_all_reduce_halving_doubling(const Problem& problem, const Setting&, Builder& to) {
  const Core core(problem.size);
  if (core.is_outside(problem.rank)) return be_stood_for(problem, to);
  const int member = core.from_rank(problem.rank);
  std::vector<Halving> halvings;
  for (int mask = 1; mask < core.size; mask <<= 1) {
    const bool is_lower = (member & mask) == 0;
    halvings.push_back({.peer = member ^ mask, .keeps_lower = is_lower, .received_is_left = !is_lower});
  }
  halve_and_double(problem, core, halvings, to);
}

Cost cost_all_reduce_halving_doubling(const Problem& problem, const Setting&) {
  const Core core(problem.size);
  const std::size_t piece = largest_share(problem.count, core.size);
  const double all = static_cast<double>(problem.count), most = static_cast<double>(piece) * (core.size - 1);
  const int steps = core.steps(), folds = core.folds();
  return {.rounds = 2.0 * (steps + folds),
          .messages = 2.0 * steps + folds,
          .path = 2 * (most + folds * all),
          .sent = 2 * most + folds * all,
          .mean_messages = 2.0 * (core.size * steps + core.extra) / problem.size,
          .mean_sent = 2 * (core.size * most + core.extra * all) / problem.size,
          .reduced = most + folds * all,
          .scratch = reserved(folds > 0 ? problem.count : piece * static_cast<std::size_t>(core.size / 2))};
}

}  // namespace unisono::schedule::algorithms
