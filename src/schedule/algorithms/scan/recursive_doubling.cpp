// scan and exscan by recursive doubling (Hillis and Steele 1986): in round k every rank passes the sum of the 2^k ranks up to itself to the rank 2^k
// above, which puts it on the left of its own.
//   rounds   ceil(log2 P)
//   sent     S ceil(log2 P)
//   scratch  S for scan, 2 S for exscan
//   order    sums of neighbours, lower ranks on the left
#include <cmath>

#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

// The exclusive prefix of rank 0 is not defined: its output stays as it is.
void build_scan_recursive_doubling(const Problem& problem, const Setting&, Builder& to) {
  const bool is_exclusive = problem.operation == Operation::exscan;
  const int rank = problem.rank;
  const Slice received = to.scratch(problem.count);
  const Slice sum = is_exclusive ? to.scratch(problem.count) : problem.out;
  Slice inclusive = problem.in;  // the sum up to this rank
  for (int distance = 1; distance < problem.size; distance *= 2) {
    const bool receives = rank >= distance;
    if (receives) to.receive(problem.level, rank - distance, received);
    if (rank + distance < problem.size) to.send(problem.level, rank + distance, inclusive);
    to.next_wave();
    if (!receives) continue;
    if (!is_exclusive || rank + 2 * distance < problem.size) {  // an inclusive sum that is still to be sent
      to.combine(problem.op, sum, received, inclusive);
      to.next_wave();
      inclusive = sum;
    }
    if (is_exclusive && distance == 1) to.reduce(problem.op, problem.out, received, 1, 1);
    else if (is_exclusive) to.combine(problem.op, problem.out, received, problem.out);
    to.next_wave();
  }
  if (!is_exclusive && rank == 0) to.reduce(problem.op, problem.out, problem.in, 1, 1);
  to.next_wave();
}

Cost cost_scan_recursive_doubling(const Problem& problem, const Setting&) {
  const bool is_exclusive = problem.operation == Operation::exscan;
  const double rounds = doublings(problem.size), n = static_cast<double>(problem.count);
  const double each = rounds - (std::exp2(rounds) - 1) / problem.size;  // rank r sends where it is not among the last
  return {.rounds = rounds,
          .messages = rounds,
          .path = rounds * n,
          .sent = rounds * n,
          .mean_messages = each,
          .mean_sent = each * n,
          .mean_copied = n,
          .reduced = (is_exclusive ? std::max(2 * rounds - 3, rounds - 1) : rounds) * n,
          .copied = n,
          .scratch = (is_exclusive ? 2 : 1) * reserved(problem.count)};
}

}  // namespace unisono::schedule::algorithms
