// all_gather by dissemination (Bruck et al. 1997): in round k every rank passes all that it has, the blocks of the 2^k ranks from itself on, to the
// rank 2^k below. The blocks are gathered in the order in which they come, and copied to their places at the end.
//   rounds   ceil(log2 P)
//   sent     S (P-1)/P of the S bytes that every rank gets
//   scratch  S, which is copied once
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

void build_all_gather_bruck(const Problem& problem, const Setting&, Builder& to) {
  const Partition blocks = Partition::blocks_of(problem);
  const int rank = problem.rank, size = problem.size;
  const std::size_t own = blocks.begin(rank), total = blocks.total();
  const Slice gathered = to.scratch(total);
  // Returns the blocks from the n-th after this rank's to the one before the m-th.
  const auto from = [&](int n) { return rank + n <= size ? blocks.begin(rank + n) - own : total - own + blocks.begin(rank + n - size); };
  const auto range = [&](int n, int m) { return gathered.part(from(n), from(m) - from(n)); };
  to.copy(gathered, problem.in);
  to.next_wave();
  for (int has = 1; has < size; has *= 2) {
    const int passed = std::min(has, size - has);
    to.exchange(problem.level, (rank + has) % size, range(has, has + passed), (rank + size - has) % size, range(0, passed));
  }
  to.copy(blocks.range(problem.out, rank, size), range(0, size - rank));
  to.copy(blocks.range(problem.out, 0, rank), range(size - rank, size));
  to.next_wave();
}

Cost cost_all_gather_bruck(const Problem& problem, const Setting&) {
  const std::size_t block = block_of(problem), all = block * static_cast<std::size_t>(problem.size);
  const double rounds = doublings(problem.size), others = static_cast<double>(all - block);
  return evenly(
      {.rounds = rounds, .messages = rounds, .path = others, .sent = others, .copied = static_cast<double>(all + block), .scratch = reserved(all)});
}

}  // namespace unisono::schedule::algorithms
