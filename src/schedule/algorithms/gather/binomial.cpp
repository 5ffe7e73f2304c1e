// gather on a binomial tree over ranges of neighbouring ranks (tree.h), with blocks of equal or different lengths: each rank collects the blocks of
// its range, one behind the other, and passes them on at once.
//   rounds   ceil(log2 P)
//   sent     up to half of the S bytes that the root gets
//   scratch  the blocks of the range; none on the root
#include "schedule/algorithms/tree.h"

namespace unisono::schedule::algorithms {

void build_gather_binomial(const Problem& problem, const Setting&, Builder& to) {
  const RangeTree tree(problem.rank, problem.size, problem.root);
  const Partition blocks = Partition::blocks_of(problem);
  Slice range = problem.in;  // the blocks from that of tree.first on
  if (problem.is_root()) range = problem.out;
  else if (!tree.children.empty()) range = to.scratch(blocks.begin(tree.last) - blocks.begin(tree.first));
  const std::size_t begin = blocks.begin(tree.first);
  const auto place_of = [&](int first, int last) { return range.part(blocks.begin(first) - begin, blocks.begin(last) - blocks.begin(first)); };
  if (range.memory != Slice::Memory::input) to.copy(place_of(problem.rank, problem.rank + 1), problem.in);
  for (const Branch& child : tree.children) {
    to.receive(problem.level, child.peer, place_of(child.first, child.last));
    to.next_wave();
  }
  if (!problem.is_root()) to.send(problem.level, tree.parent.peer, range);
  to.next_wave();
}

Cost cost_gather_binomial(const Problem& problem, const Setting&) {
  const std::size_t block = block_of(problem);
  return cost_of_blocks_on_tree(problem, static_cast<double>(block << (doublings(problem.size) - 1)));
}

}  // namespace unisono::schedule::algorithms
