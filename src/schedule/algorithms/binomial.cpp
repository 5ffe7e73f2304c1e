// broadcast, reduce, gather and scatter on a binomial tree over ranges of neighbouring ranks, the latter two with blocks of equal or different
// lengths: each rank has the blocks of its range, one behind the other. In a reduce partial sums are joined two by two, in a gather ranges of blocks
// are; a broadcast and a scatter go the other way, the largest ranges first. All take ceil(log2 P) rounds.
//              sent                                               scratch
//   broadcast  S ceil(log2 P), by the root                        none
//   reduce     S                                                  2 S; S on the root
//   gather     up to half of the S bytes that the root gets       the blocks of the range; none on the root
//   scatter    S (P-1)/P of the S bytes, by the root              the blocks of the range; none on the root
// order: sums of neighbours, lower ranks on the left
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {
namespace {

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

/// The blocks of this rank's range: in the buffer of the root that has them all, in that of a rank without children, or in scratch memory.
class Range {
 public:
  Range(const Problem& problem, const RangeTree& tree, const Slice& buffer, Builder& to)
      : blocks_(Partition::blocks_of(problem)), begin_(blocks_.begin(tree.first)), all_(buffer) {
    if (!problem.is_root() && !tree.children.empty()) all_ = to.scratch(blocks_.begin(tree.last) - begin_);
  }
  const Slice& all() const { return all_; }
  Slice of(int first, int last) const { return all_.part(blocks_.begin(first) - begin_, blocks_.begin(last) - blocks_.begin(first)); }

 private:
  Partition blocks_;
  std::size_t begin_;
  Slice all_;
};

/// Returns the cost of moving blocks between each rank and the root along the tree, where the busiest rank sends so many elements.
Cost cost_of_blocks_on_tree(const Problem& problem, double sent) {
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

}  // namespace

void build_broadcast_binomial(const Problem& problem, const Setting&, Builder& to) {
  const RangeTree tree(problem.rank, problem.size, problem.root);
  if (!problem.is_root()) to.receive(problem.level, tree.parent.peer, problem.out);
  to.next_wave();
  for (std::size_t i = tree.children.size(); i-- > 0;) {
    to.send(problem.level, tree.children[i].peer, problem.is_root() ? problem.in : problem.out);
    to.next_wave();
  }
  if (problem.is_root()) to.copy(problem.out, problem.in);
  to.next_wave();
}

Cost cost_broadcast_binomial(const Problem& problem, const Setting&) {
  const double rounds = doublings(problem.size), n = static_cast<double>(problem.count);
  const double others = (problem.size - 1.0) / problem.size;
  return {.rounds = rounds,
          .messages = rounds,
          .path = rounds * n,
          .sent = rounds * n,
          .mean_messages = others,
          .mean_sent = others * n,
          .mean_copied = n / problem.size,
          .copied = n};
}

void build_gather_binomial(const Problem& problem, const Setting&, Builder& to) {
  const RangeTree tree(problem.rank, problem.size, problem.root);
  const Range range(problem, tree, problem.is_root() ? problem.out : problem.in, to);
  if (range.all().memory != Slice::Memory::input) to.copy(range.of(problem.rank, problem.rank + 1), problem.in);
  for (const Branch& child : tree.children) {
    to.receive(problem.level, child.peer, range.of(child.first, child.last));
    to.next_wave();
  }
  if (!problem.is_root()) to.send(problem.level, tree.parent.peer, range.all());
  to.next_wave();
}

Cost cost_gather_binomial(const Problem& problem, const Setting&) {
  return cost_of_blocks_on_tree(problem, static_cast<double>(block_of(problem) << (doublings(problem.size) - 1)));
}

void build_scatter_binomial(const Problem& problem, const Setting&, Builder& to) {
  const RangeTree tree(problem.rank, problem.size, problem.root);
  const Range range(problem, tree, problem.is_root() ? problem.in : problem.out, to);
  if (!problem.is_root()) to.receive(problem.level, tree.parent.peer, range.all());
  to.next_wave();
  for (std::size_t i = tree.children.size(); i-- > 0;) {
    to.send(problem.level, tree.children[i].peer, range.of(tree.children[i].first, tree.children[i].last));
    to.next_wave();
  }
  if (range.all().memory != Slice::Memory::output) to.copy(problem.out, range.of(problem.rank, problem.rank + 1));
  to.next_wave();
}

Cost cost_scatter_binomial(const Problem& problem, const Setting&) {
  return cost_of_blocks_on_tree(problem, static_cast<double>(block_of(problem)) * (problem.size - 1));
}

void build_reduce_binomial(const Problem& problem, const Setting&, Builder& to) {
  const RangeTree tree(problem.rank, problem.size, problem.root);
  Slice mine = problem.in;
  if (!tree.children.empty()) {
    const Slice received = to.scratch(problem.count);
    const Slice sum = problem.is_root() ? problem.out : to.scratch(problem.count);
    for (const Branch& child : tree.children) {
      to.receive(problem.level, child.peer, received);
      to.next_wave();
      combine_two(problem, sum, mine, received, child.first < problem.rank, to);
      mine = sum;
    }
  }
  if (problem.is_root()) return finish_average(problem, mine, to);
  to.send(problem.level, tree.parent.peer, mine);
  to.next_wave();
}

Cost cost_reduce_binomial(const Problem& problem, const Setting&) {
  const double rounds = doublings(problem.size), n = static_cast<double>(problem.count);
  const double others = (problem.size - 1.0) / problem.size;
  return {.rounds = rounds,
          .messages = rounds,
          .path = rounds * n,
          .sent = n,
          .mean_messages = others,
          .mean_sent = others * n,
          .reduced = rounds * n,
          .scratch = (problem.size > 2 ? 2 : 1) * reserved(problem.count)};
}

}  // namespace unisono::schedule::algorithms
