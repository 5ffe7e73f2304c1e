// broadcast along a chain, in k pieces: each rank receives a piece while it passes on the one before. The first of the chain is the root. k is chosen
// by the model of the network (pieces_of_chain).
//   rounds   P - 2 + k
//   sent     S
//   scratch  none
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

void build_broadcast_chain(const Problem& problem, const Setting& setting, Builder& to) {
  const int size = problem.size, place = (problem.rank - problem.root + size) % size;
  const int pieces = pieces_of_chain(problem.count, size_of(problem.dtype), size - 1, setting.network, setting.sharing);
  const Partition parts = Partition::even(problem.count, pieces);
  const Slice from = problem.is_root() ? problem.in : problem.out;
  for (int i = 0; i <= pieces; ++i) {
    if (place > 0 && i < pieces) to.receive(problem.level, (problem.rank + size - 1) % size, parts.part(problem.out, i));
    if (place < size - 1 && i > 0) to.send(problem.level, (problem.rank + 1) % size, parts.part(from, i - 1));
    to.next_wave();
  }
  if (problem.is_root()) to.copy(problem.out, problem.in);
  to.next_wave();
}

Cost cost_broadcast_chain(const Problem& problem, const Setting& setting) {
  const int pieces = pieces_of_chain(problem.count, size_of(problem.dtype), problem.size - 1, setting.network, setting.sharing);
  const double rounds = problem.size - 2 + pieces, n = static_cast<double>(problem.count);
  const double others = (problem.size - 1.0) / problem.size;
  return {.rounds = rounds,
          .messages = static_cast<double>(pieces),
          .path = rounds * static_cast<double>(largest_share(problem.count, pieces)),
          .sent = n,
          .mean_messages = others * pieces,
          .mean_sent = others * n,
          .mean_copied = n / problem.size,
          .copied = n};
}

}  // namespace unisono::schedule::algorithms
