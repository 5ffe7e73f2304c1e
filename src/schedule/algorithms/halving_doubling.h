#pragma once

#include <utility>
#include <vector>

#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {

/// The part of one member of the core in a round of halving.
struct Halving {
  int peer;               ///< a member of the core
  bool keeps_lower;       ///< this member goes on with the lower half of the elements that it has a sum of
  bool received_is_left;  ///< the peer's elements are the left ones
};

/// Adds an all_reduce by halving and doubling. In each round of the first half, two members that have partial sums of the same elements exchange
/// halves of them; in the second half the same pairs, in reverse, exchange the finished elements. `halvings` are those of this rank.
inline void halve_and_double(const Problem& problem, const Core& core, const std::vector<Halving>& halvings, Builder& to) {
  const Partition pieces = Partition::even(problem.count, core.size);
  const int rank = problem.rank;
  const Slice received = to.scratch(core.has_charge(rank) ? problem.count : pieces.begin(core.size / 2));
  Slice mine = problem.in;
  if (core.has_charge(rank)) {
    to.receive(problem.level, rank + 1, received);
    to.next_wave();
    combine_two(problem, problem.out, mine, received, false, to);
    mine = problem.out;
  }
  std::vector<std::pair<int, int>> kept{{0, core.size}};  // the pieces after each round
  for (const Halving& halving : halvings) {
    const auto [first, last] = kept.back();
    const int middle = (first + last) / 2;
    const std::pair<int, int> lower{first, middle}, upper{middle, last};
    const auto& [keep, give] = halving.keeps_lower ? std::pair(lower, upper) : std::pair(upper, lower);
    const Slice sum = pieces.range(problem.out, keep.first, keep.second);
    to.receive(problem.level, core.to_rank(halving.peer), received.part(0, sum.count));
    to.send(problem.level, core.to_rank(halving.peer), pieces.range(mine, give.first, give.second));
    to.next_wave();
    combine_two(problem, sum, pieces.range(mine, keep.first, keep.second), received.part(0, sum.count), halving.received_is_left, to);
    mine = problem.out;
    kept.push_back(keep);
  }
  finish_average(problem, pieces.range(problem.out, kept.back().first, kept.back().second), to);
  for (std::size_t i = halvings.size(); i-- > 0;) {
    const auto [first, last] = kept[i];
    const int middle = (first + last) / 2;
    const bool has_lower = halvings[i].keeps_lower;
    to.receive(problem.level, core.to_rank(halvings[i].peer),
               has_lower ? pieces.range(problem.out, middle, last) : pieces.range(problem.out, first, middle));
    to.send(problem.level, core.to_rank(halvings[i].peer),
            has_lower ? pieces.range(problem.out, first, middle) : pieces.range(problem.out, middle, last));
    to.next_wave();
  }
  if (core.has_charge(rank)) to.send(problem.level, rank + 1, problem.out);
  to.next_wave();
}

}  // namespace unisono::schedule::algorithms
