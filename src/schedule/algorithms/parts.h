#pragma once

#include "schedule/algorithm.h"

// Parts that several algorithms have in common.
namespace unisono::schedule::algorithms {

/// Returns a collective of the same ranks that only moves elements.
inline Problem move(const Problem& of, Operation operation, const Slice& in, const Slice& out) {
  return {.operation = operation, .dtype = of.dtype, .level = of.level, .rank = of.rank, .size = of.size, .in = in, .out = out};
}

/// Sends each of the other ranks its block of the input. Returns the slice that receives all ranks' versions of this rank's block, one behind the
/// other.
inline Slice collect(const Problem& problem, const Setting& setting, const Counts& blocks, Builder& to) {
  const std::size_t own = blocks[static_cast<std::size_t>(problem.rank)];
  Problem exchange = move(problem, Operation::all_to_all_v, problem.in, to.scratch(own * static_cast<std::size_t>(problem.size)));
  exchange.counts = blocks;
  exchange.recv_counts = same(own, problem.size);
  build(exchange, setting, to);
  return exchange.out;
}

/// Combines the versions that `collect` has received.
inline void combine(const Problem& problem, const Slice& out, const Slice& parts, Builder& to) {
  to.reduce(problem.op, out, parts, static_cast<std::size_t>(problem.size), static_cast<std::size_t>(problem.size));
  to.next_wave();
}

}  // namespace unisono::schedule::algorithms
