#pragma once

#include <vector>

#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

/// An edge of a tree as one of its ranks sees it: a message to or from `peer` about the ranks from `first` to the one before `last`.
struct Branch {
  int peer = -1;
  int first = 0, last = 0;
};

/// A binomial tree over ranges of neighbouring ranks. In round k, each range of 2^k ranks is joined with its neighbour: one rank stands for both from
/// then on: the root where it is among them, else the lowest. So every rank stands for a contiguous range, whichever rank the root is.
struct RangeTree {
  std::vector<Branch> children;  ///< by increasing round: the ranges that are joined to this rank's
  Branch parent;                 ///< of all but the root: the range that this rank stands for in the end
  int first, last;               ///< that range

  RangeTree(int rank, int size, int root) : first(rank), last(rank + 1) {
    const auto holder = [&](int begin, int end) { return root >= begin && root < end ? root : begin; };
    for (int mask = 1; mask < size; mask <<= 1) {
      const int begin = rank & ~(2 * mask - 1), middle = begin + mask;
      const int end = std::min(begin + 2 * mask, size);
      if (middle >= end) continue;  // no neighbour
      const bool is_lower = rank < middle;
      const int other = is_lower ? holder(middle, end) : holder(begin, middle);
      if (holder(begin, end) != rank) {
        parent = {other, first, last};
        return;
      }
      children.push_back(is_lower ? Branch{other, middle, end} : Branch{other, begin, middle});
      first = begin;
      last = end;
    }
  }
};

/// Returns the cost of moving blocks between each rank and the root along the tree, where the busiest rank sends so many elements.
inline Cost cost_of_blocks_on_tree(const Problem& problem, double sent) {
  const int rounds = doublings(problem.size);
  const std::size_t block = block_of(problem), half = std::size_t{1} << (rounds - 1);
  const double ranks = problem.size, n = static_cast<double>(block);
  return {.rounds = static_cast<double>(rounds),
          .messages = static_cast<double>(rounds),
          .path = static_cast<double>(block * (2 * half - 1)),
          .sent = sent,
          .mean_messages = (ranks - 1) / ranks,
          .mean_sent = static_cast<double>(block * half) * rounds / ranks,
          .mean_copied = n / ranks,
          .copied = n,
          .scratch = half > 1 ? reserved(block * half) : 0};
}

}  // namespace unisono::schedule::algorithms
