#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "schedule/algorithm.h"

// Parts that several algorithms have in common.
namespace unisono::schedule::algorithms {

/// Consecutive elements, divided among the ranks of a problem: where the part of each begins. Even partitions take no memory, whatever the number of
/// parts.
class Partition {
 public:
  /// Divides `count` elements as evenly as possible, as `shares` does.
  static Partition even(std::size_t count, int parts) { return {count / unsigned_of(parts), count % unsigned_of(parts), parts}; }
  /// Gives each of the parts `count` elements.
  static Partition uniform(std::size_t count, int parts) { return {count, 0, parts}; }
  /// Gives each of the parts its count, or `count` elements if there are no counts.
  static Partition of(const Counts& counts, std::size_t count, int parts) {
    Partition partition = uniform(count, parts);
    if (counts.size() == 0) return partition;
    partition.begins_.reserve(counts.size() + 1);
    partition.begins_.push_back(0);
    for (const std::size_t n : counts) partition.begins_.push_back(partition.begins_.back() + n);
    return partition;
  }
  /// Takes the blocks of a collective.
  static Partition blocks_of(const Problem& problem) { return of(problem.counts, problem.count, problem.size); }

  int parts() const { return parts_; }
  /// Returns the place where a part begins; that of `parts()` is the end of the last one.
  std::size_t begin(int part) const {
    const auto i = static_cast<std::size_t>(part);
    return begins_.empty() ? i * quotient_ + std::min(i, remainder_) : begins_[i];
  }
  std::size_t count(int part) const { return begin(part + 1) - begin(part); }
  std::size_t total() const { return begin(parts_); }
  std::size_t largest() const {
    if (begins_.empty()) return quotient_ + (remainder_ > 0 ? 1 : 0);
    std::size_t most = 0;
    for (int i = 0; i < parts_; ++i) most = std::max(most, count(i));
    return most;
  }
  /// Returns the parts from `first` to the one before `last`, of elements that begin where `of` does.
  Slice range(const Slice& of, int first, int last) const { return of.part(begin(first), begin(last) - begin(first)); }
  Slice part(const Slice& of, int i) const { return range(of, i, i + 1); }

 private:
  Partition(std::size_t quotient, std::size_t remainder, int parts) : quotient_(quotient), remainder_(remainder), parts_(parts) {}
  static std::size_t unsigned_of(int parts) { return static_cast<std::size_t>(parts); }

  std::size_t quotient_, remainder_;
  int parts_;
  std::vector<std::size_t> begins_ = {};  // of uneven parts
};

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

/// Adds the part of a rank outside of the core in a reduction.
inline void be_stood_for(const Problem& problem, Builder& to) {
  to.send(problem.level, problem.rank - 1, problem.in);
  to.next_wave();
  to.receive(problem.level, problem.rank - 1, problem.out);
  to.next_wave();
}

/// Adds the elements of the rank that this rank of the core stands for, if there is one, by way of `received`. Returns the slice that has the sum:
/// `sum`, or `mine` if there is none.
inline Slice add_charge(const Problem& problem, const Core& core, const Slice& mine, const Slice& received, const Slice& sum, Builder& to) {
  if (!core.has_charge(problem.rank)) return mine;
  to.receive(problem.level, problem.rank + 1, received);
  to.next_wave();
  combine_two(problem, sum, mine, received, false, to);
  return sum;
}

}  // namespace unisono::schedule::algorithms
