#pragma once

#include "schedule/algorithm.h"
#include "schedule/partition.h"

// Parts that several algorithms have in common.
namespace unisono::schedule::algorithms {

/// Returns a collective of the same ranks that only moves elements.
inline Problem move(const Problem& of, Operation operation, const Slice& in, const Slice& out) {
  return {.operation = operation, .dtype = of.dtype, .level = of.level, .rank = of.rank, .size = of.size, .in = in, .out = out};
}

/// Returns a problem that costs as much as one with blocks of that length. It has no memory and no counts.
inline Problem move_blocks(const Problem& of, Operation operation, std::size_t block) {
  Problem problem = move(of, operation, {}, {});
  problem.count = has_counts(operation) ? block * static_cast<std::size_t>(of.size) : block;
  problem.typical_block = block;
  problem.root = of.root;
  return problem;
}

/// Sends each of the other ranks its block of the input. Returns the slice that receives all ranks' versions of this rank's block, one behind the
/// other. `typical_block` is the same on all ranks.
inline Slice collect(const Problem& problem, const Setting& setting, const Counts& blocks, std::size_t typical_block, Builder& to) {
  const std::size_t own = blocks[static_cast<std::size_t>(problem.rank)];
  Problem exchange = move(problem, Operation::all_to_all_v, problem.in, to.scratch(own * static_cast<std::size_t>(problem.size)));
  exchange.counts = blocks;
  exchange.recv_counts = same(own, problem.size);
  exchange.typical_block = typical_block;
  build(exchange, setting, to);
  return exchange.out;
}

/// Combines the versions that `collect` has received.
inline void combine(const Problem& problem, const Slice& out, const Slice& parts, Builder& to) {
  to.reduce(problem.op, out, parts, static_cast<std::size_t>(problem.size), static_cast<std::size_t>(problem.size));
  to.next_wave();
}

/// Returns the cost of both for blocks of that length.
inline Cost cost_of_collecting(const Problem& problem, const Setting& setting, std::size_t block) {
  const auto ranks = static_cast<std::size_t>(problem.size);
  Cost cost = cost_of(move_blocks(problem, Operation::all_to_all_v, block), setting);
  cost.copied = cost.mean_copied = static_cast<double>(block);
  cost.reduced = static_cast<double>(block * (ranks - 1));
  cost.scratch += reserved(block * ranks);
  return cost;
}

/// Returns the operation of partial results: averages are summed first.
inline ReduceOp partial_op(const Problem& problem) { return problem.op == ReduceOp::avg ? ReduceOp::sum : problem.op; }

/// Combines two partial results: that of this rank and one received. The one of the lower ranks is the left one.
inline void combine_two(const Problem& problem, const Slice& out, const Slice& mine, const Slice& received, bool received_is_left, Builder& to) {
  to.combine(partial_op(problem), out, received_is_left ? received : mine, received_is_left ? mine : received);
  to.next_wave();
}

/// Divides finished sums where the problem is an average.
inline void finish_average(const Problem& problem, const Slice& sums, Builder& to) {
  if (problem.op == ReduceOp::avg && !problem.is_custom) to.divide(sums, static_cast<std::size_t>(problem.size));
  to.next_wave();
}

/// The largest power of two of the ranks, as the ranks of a core. Each rank beyond it gives what it has to its lower neighbour and gets back the
/// result: of the first 2 x `extra` ranks, the even ones are in the core. So the ranks that a core rank stands for are neighbours.
struct Core {
  int size, extra;

  explicit Core(int ranks) : size(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))), extra(ranks - size) {}
  /// Returns true for a rank that is not in the core: the one below it stands for it.
  bool is_outside(int rank) const { return rank < 2 * extra && rank % 2 == 1; }
  /// Returns true for a rank of the core that stands for the one above it.
  bool has_charge(int rank) const { return rank < 2 * extra && rank % 2 == 0; }
  int from_rank(int rank) const { return rank < 2 * extra ? rank / 2 : rank - extra; }
  /// Returns the rank of a member of the core: the first of those that it stands for. That of `size` is the number of ranks.
  int to_rank(int member) const { return member < extra ? 2 * member : member + extra; }
  int steps() const { return doublings(size); }
  /// Returns 1 where there are ranks outside the core, else 0.
  int folds() const { return extra > 0 ? 1 : 0; }
};

/// Adds the part of a rank outside of the core in an all_reduce.
inline void be_stood_for(const Problem& problem, Builder& to) {
  to.send(problem.level, problem.rank - 1, problem.in);
  to.next_wave();
  to.receive(problem.level, problem.rank - 1, problem.out);
  to.next_wave();
}

/// Passes block after block around the ring, so that every rank gets all of them in `out`. Each has its own there already. P-1 rounds.
inline void pass_around(const Problem& problem, const Partition& blocks, const Slice& out, Builder& to) {
  const int next = (problem.rank + 1) % problem.size, previous = (problem.rank + problem.size - 1) % problem.size;
  for (int sent = problem.rank, step = 1; step < problem.size; ++step) {
    const int received = (sent + problem.size - 1) % problem.size;
    to.receive(problem.level, previous, blocks.part(out, received));
    to.send(problem.level, next, blocks.part(out, sent));
    to.next_wave();
    sent = received;
  }
}

/// Passes partial sums around the ring: that of block b begins at rank b + 1 and ends at rank b, in `out`. P-1 rounds.
inline void sum_around(const Problem& problem, const Partition& blocks, const Slice& out, Builder& to) {
  const int size = problem.size, next = (problem.rank + 1) % size, previous = (problem.rank + size - 1) % size;
  Slice received = to.scratch(blocks.largest()), other = to.scratch(blocks.largest());
  Slice passed = blocks.part(problem.in, previous);
  for (int step = 2; step <= size; ++step) {
    const int block = (problem.rank + size - step + size) % size;
    const Slice arrived = received.part(0, blocks.count(block));
    to.receive(problem.level, previous, arrived);
    to.send(problem.level, next, passed);
    to.next_wave();
    passed = step == size ? out : arrived;
    combine_two(problem, passed, blocks.part(problem.in, block), arrived, true, to);
    std::swap(received, other);  // the partial sum in the first is still to be sent
  }
}

}  // namespace unisono::schedule::algorithms
