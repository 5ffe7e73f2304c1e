// scan and exscan by shares: every rank gets all versions of its share, computes from them the prefix of each rank, and sends it there. A rank sends
// 2 S (P-1)/P bytes. The exclusive prefix of rank 0 is not defined: its output stays as it is.
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

void build_scan_shares(const Problem& problem, const Setting& setting, Builder& to) {
  const Counts blocks = shares(problem.count, problem.size);
  const std::size_t own = blocks[static_cast<std::size_t>(problem.rank)];
  const auto ranks = static_cast<std::size_t>(problem.size);
  const bool is_exclusive = problem.operation == Operation::exscan;
  const Slice parts = collect(problem, setting, blocks, to);
  const Slice made = to.scratch(own * ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::size_t fan_in = is_exclusive ? std::max<std::size_t>(r, 1) : r + 1;  // rank 0 discards its part of an exclusive scan
    to.reduce(problem.op, made.part(r * own, own), parts, fan_in, ranks);
  }
  to.next_wave();
  Problem exchange = move(problem, Operation::all_to_all_v, made, is_exclusive && problem.rank == 0 ? to.scratch(problem.count) : problem.out);
  exchange.counts = same(own, problem.size);
  exchange.recv_counts = blocks;
  build(exchange, setting, to);
}

}  // namespace unisono::schedule::algorithms
