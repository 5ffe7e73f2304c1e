// Reductions in which every element is combined once, by one rank, from left to right: all ranks get the same bits, and halves are rounded once. All
// but `everything` begin with an exchange (all_to_all_v) by which every rank gets all versions of its share of the S bytes, or of its block.
//                                    then it                                            rounds     sent              scratch
//   everything  all_reduce           (gets the whole input of every rank, and combines) 1          (P-1) S           P S
//   blocks      reduce_scatter, _v   combines them                                      1          S (P-1)/P         P blocks
//   shares      all_reduce, reduce   sends their sum to all, or to the root             2          2 S (P-1)/P       S and a share
//   shares      scan, exscan         sends to each rank its prefix                      2          2 S (P-1)/P       2 S
// Rounds, and memory beside, are those of the collectives that move the elements: 1 for each where it is an exchange. Of a reduce only ranks that are
// not the root send in the second one. The order is `once`.
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {
namespace {

/// Sends each of the other ranks its block of the input. Returns the slice that receives all ranks' versions of this rank's block, one behind the
/// other. `typical_block` is the same on all ranks.
Slice collect(const Problem& problem, const Setting& setting, const Counts& blocks, std::size_t typical_block, Builder& to) {
  const std::size_t own = blocks[static_cast<std::size_t>(problem.rank)];
  Problem exchange = move(problem, Operation::all_to_all_v, problem.in, to.scratch(own * static_cast<std::size_t>(problem.size)));
  exchange.counts = blocks;
  exchange.recv_counts = same(own, problem.size);
  exchange.typical_block = typical_block;
  build(exchange, setting, to);
  return exchange.out;
}

/// Combines the versions of all ranks.
void combine(const Problem& problem, const Slice& out, const Slice& versions, Builder& to) {
  to.reduce(problem.op, out, versions, static_cast<std::size_t>(problem.size), static_cast<std::size_t>(problem.size));
  to.next_wave();
}

/// Returns the cost of both for blocks of that length.
Cost cost_of_collecting(const Problem& problem, const Setting& setting, std::size_t block) {
  const auto ranks = static_cast<std::size_t>(problem.size);
  Cost cost = cost_of(move_blocks(problem, Operation::all_to_all_v, block), setting);
  cost.copied = cost.mean_copied = static_cast<double>(block);
  cost.reduced = static_cast<double>(block * (ranks - 1));
  cost.scratch += reserved(block * ranks);
  return cost;
}

Operation gather_for(const Problem& problem) { return problem.operation == Operation::reduce ? Operation::gather_v : Operation::all_gather_v; }

}  // namespace

void build_everything(const Problem& problem, const Setting& setting, Builder& to) {
  const Slice all = to.scratch(problem.count * static_cast<std::size_t>(problem.size));
  Problem gather = move(problem, Operation::all_gather, problem.in, all);
  gather.count = problem.count;
  build(gather, setting, to);
  combine(problem, problem.out, all, to);
}

Cost cost_everything(const Problem& problem, const Setting& setting) {
  Cost cost = cost_of(move_blocks(problem, Operation::all_gather, problem.count), setting);
  cost.reduced = static_cast<double>(problem.count) * (problem.size - 1);
  cost.scratch += reserved(problem.count * static_cast<std::size_t>(problem.size));
  return cost;
}

void build_blocks(const Problem& problem, const Setting& setting, Builder& to) {
  const Counts blocks = has_counts(problem.operation) ? problem.counts : same(problem.count, problem.size);
  combine(problem, problem.out, collect(problem, setting, blocks, block_of(problem), to), to);
}

Cost cost_blocks(const Problem& problem, const Setting& setting) { return cost_of_collecting(problem, setting, block_of(problem)); }

void build_shares(const Problem& problem, const Setting& setting, Builder& to) {
  const Counts blocks = shares(problem.count, problem.size);
  const Slice mine = to.scratch(blocks[static_cast<std::size_t>(problem.rank)]);
  combine(problem, mine, collect(problem, setting, blocks, largest_share(problem.count, problem.size), to), to);
  const bool receives = problem.operation != Operation::reduce || problem.is_root();
  Problem gather = move(problem, gather_for(problem), mine, receives ? problem.out : problem.out.part(0, 0));
  gather.root = problem.root;
  gather.counts = blocks;
  gather.count = problem.count;
  build(gather, setting, to);
}

Cost cost_shares(const Problem& problem, const Setting& setting) {
  const std::size_t share = largest_share(problem.count, problem.size);
  Cost cost = cost_of_collecting(problem, setting, share) + cost_of(move_blocks(problem, gather_for(problem), share), setting);
  cost.scratch += reserved(share);
  return cost;
}

// The exclusive prefix of rank 0 is not defined: its output stays as it is.
void build_prefix_shares(const Problem& problem, const Setting& setting, Builder& to) {
  const Counts blocks = shares(problem.count, problem.size);
  const std::size_t own = blocks[static_cast<std::size_t>(problem.rank)], share = largest_share(problem.count, problem.size);
  const auto ranks = static_cast<std::size_t>(problem.size);
  const bool is_exclusive = problem.operation == Operation::exscan;
  const Slice versions = collect(problem, setting, blocks, share, to);
  const Slice made = to.scratch(own * ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::size_t fan_in = is_exclusive ? std::max<std::size_t>(r, 1) : r + 1;  // rank 0 discards its part of an exclusive scan
    to.reduce(problem.op, made.part(r * own, own), versions, fan_in, ranks);
  }
  to.next_wave();
  Problem exchange = move(problem, Operation::all_to_all_v, made, is_exclusive && problem.rank == 0 ? to.scratch(problem.count) : problem.out);
  exchange.counts = same(own, problem.size);
  exchange.recv_counts = blocks;
  exchange.typical_block = share;
  build(exchange, setting, to);
}

Cost cost_prefix_shares(const Problem& problem, const Setting& setting) {
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
