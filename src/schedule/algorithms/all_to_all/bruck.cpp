// all_to_all of small blocks (Bruck et al. 1997): the block for the rank j above goes there in as many messages as the number j has bits. In round k
// every rank packs the blocks whose j has bit k, and sends them to the rank 2^k above.
//   rounds   ceil(log2 P)
//   sent     about S/2 ceil(log2 P) of the S bytes that every rank gives
//   scratch  2 S, and each round copies the elements that it sends twice
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {
namespace {

/// Returns the blocks below `size` whose number has that bit, as runs: pairs of the first and the one after the last.
std::vector<std::pair<int, int>> runs_with(int bit, int size) {
  std::vector<std::pair<int, int>> runs;
  for (int first = bit; first < size; first += 2 * bit) runs.emplace_back(first, std::min(first + bit, size));
  return runs;
}

std::size_t blocks_with(int bit, int size) {
  const int rest = size % (2 * bit);
  return static_cast<std::size_t>(size / (2 * bit) * bit + std::max(rest - bit, 0));
}

}  // namespace

void build_all_to_all_bruck(const Problem& problem, const Setting&, Builder& to) {
  const int rank = problem.rank, size = problem.size;
  const Partition blocks = Partition::uniform(problem.count, size);
  const Slice held = to.scratch(blocks.total());  // block j: what goes to, and at last comes from, the rank j above or below
  to.copy(blocks.range(held, 0, size - rank), blocks.range(problem.in, rank, size));
  to.copy(blocks.range(held, size - rank, size), blocks.range(problem.in, 0, rank));
  to.next_wave();
  std::size_t most = 0;
  for (int bit = 1; bit < size; bit *= 2) most = std::max(most, blocks_with(bit, size));
  const Slice packed = to.scratch(most * problem.count), received = to.scratch(most * problem.count);
  for (int bit = 1; bit < size; bit *= 2) {
    const std::vector<std::pair<int, int>> runs = runs_with(bit, size);
    const std::size_t n = blocks_with(bit, size) * problem.count;
    const auto copy_runs = [&](const Slice& parcel, bool out) {
      std::size_t at = 0;
      for (const auto& [first, last] : runs) {
        const Slice run = blocks.range(held, first, last), place = parcel.part(at, run.count);
        to.copy(out ? place : run, out ? run : place);
        at += run.count;
      }
      to.next_wave();
    };
    copy_runs(packed, true);
    to.exchange(problem.level, (rank + size - bit) % size, received.part(0, n), (rank + bit) % size, packed.part(0, n));
    copy_runs(received, false);
  }
  for (int j = 0; j < size; ++j) to.copy(blocks.part(problem.out, (rank + size - j) % size), blocks.part(held, j));
  to.next_wave();
}

Cost cost_all_to_all_bruck(const Problem& problem, const Setting&) {
  std::size_t moved = 0, most = 0;
  for (int bit = 1; bit < problem.size; bit *= 2) {
    moved += blocks_with(bit, problem.size);
    most = std::max(most, blocks_with(bit, problem.size));
  }
  const std::size_t block = block_of(problem), all = block * static_cast<std::size_t>(problem.size);
  const double rounds = doublings(problem.size), n = static_cast<double>(moved * block);
  return evenly({.rounds = rounds,
                 .messages = rounds,
                 .path = n,
                 .sent = n,
                 .copied = 2 * static_cast<double>(all) + 2 * n,
                 .scratch = reserved(all) + 2 * reserved(most * block)});
}

}  // namespace unisono::schedule::algorithms
