// scan and exscan by shares: every rank gets all versions of its share, computes from them the prefix of each rank, and sends it there. The exclusive
// prefix of rank 0 is not defined: its output stays as it is.
//   rounds   those of two calls of all_to_all_v: 2 where both are exchanges
//   sent     2 S (P-1)/P
//   scratch  2 S
//   order    once
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

void build_scan_shares(const Problem& problem, const Setting& setting, Builder& to) {
  const Counts blocks = shares(problem.count, problem.size);
  const std::size_t own = blocks[static_cast<std::size_t>(problem.rank)];
  const auto ranks = static_cast<std::size_t>(problem.size);
  const bool is_exclusive = problem.operation == Operation::exscan;
  const Slice parts = collect(problem, setting, blocks, largest_share(problem.count, problem.size), to);
  const Slice made = to.scratch(own * ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::size_t fan_in = is_exclusive ? std::max<std::size_t>(r, 1) : r + 1;  // rank 0 discards its part of an exclusive scan
    to.reduce(problem.op, made.part(r * own, own), parts, fan_in, ranks);
  }
  to.next_wave();
  Problem exchange = move(problem, Operation::all_to_all_v, made, is_exclusive && problem.rank == 0 ? to.scratch(problem.count) : problem.out);
  exchange.counts = same(own, problem.size);
  exchange.recv_counts = blocks;
  exchange.typical_block = largest_share(problem.count, problem.size);
  build(exchange, setting, to);
}

Cost cost_scan_shares(const Problem& problem, const Setting& setting) {
  const std::size_t share = largest_share(problem.count, problem.size);
  const auto n = static_cast<double>(share);
  Cost cost = cost_of_collecting(problem, setting, share) + cost_of(move_blocks(problem, Operation::all_to_all_v, share), setting);
  const bool is_exclusive = problem.operation == Operation::exscan;
  cost.reduced = n * (problem.size - 1) * (is_exclusive ? problem.size - 2 : problem.size) / 2;
  cost.copied = cost.mean_copied = (is_exclusive ? 4 : 3) * n;
  cost.scratch += reserved(share * static_cast<std::size_t>(problem.size)) + (is_exclusive ? reserved(problem.count) : 0);
  return cost;
}

}  // namespace unisono::schedule::algorithms
