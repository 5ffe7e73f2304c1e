// scatter on a binomial tree over ranges of neighbouring ranks (tree.h), with blocks of equal or different lengths: each rank receives the blocks of
// its range and passes on those of others, half of its range at a time.
//   rounds   ceil(log2 P)
//   sent     S (P-1)/P of the S bytes that the root gives, by the root
//   scratch  the blocks of the range; none on the root
#include "schedule/algorithms/tree.h"

namespace unisono::schedule::algorithms {

void build_scatter_binomial(const Problem& problem, const Setting&, Builder& to) {
  const RangeTree tree(problem.rank, problem.size, problem.root);
  const Partition blocks = Partition::blocks_of(problem);
  const std::size_t begin = blocks.begin(tree.first);
  Slice range = problem.out;  // the blocks from that of tree.first on
  if (problem.is_root()) range = problem.in;
  else if (!tree.children.empty()) range = to.scratch(blocks.begin(tree.last) - begin);
  const auto place_of = [&](int first, int last) { return range.part(blocks.begin(first) - begin, blocks.begin(last) - blocks.begin(first)); };
  if (!problem.is_root()) to.receive(problem.level, tree.parent.peer, range);
  to.next_wave();
  for (std::size_t i = tree.children.size(); i-- > 0;) {
    const Branch& child = tree.children[i];
    to.send(problem.level, child.peer, place_of(child.first, child.last));
    to.next_wave();
  }
  if (range.memory != Slice::Memory::output) to.copy(problem.out, place_of(problem.rank, problem.rank + 1));
  to.next_wave();
}

Cost cost_scatter_binomial(const Problem& problem, const Setting&) {
  const std::size_t block = block_of(problem);
  return cost_of_blocks_on_tree(problem, static_cast<double>(block) * (problem.size - 1));
}

}  // namespace unisono::schedule::algorithms
