// broadcast and reduce along the chain of the ranks, in k pieces: a rank receives a piece while it passes on the one before. A broadcast begins at
// the root and goes around; in a reduce rank r adds its elements to the sum of the ranks below, and the last rank sends the sums to the root, unless
// it is the root. k is chosen by the model of the network (pieces_of_chain).
//              rounds                                              sent   scratch   order
//   broadcast  P - 2 + k                                           S      none      none
//   reduce     P - 2 + k; one more if the root is not the last     S      2 S/k     from left to right
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {
namespace {

int pieces_of_sums(const Problem& problem, const Setting& setting) {
  const int links = problem.root == problem.size - 1 ? problem.size - 1 : problem.size;
  return pieces_of_chain(problem.count, size_of(problem.dtype), links, setting.network, setting.sharing);
}

}  // namespace

void build_broadcast_chain(const Problem& problem, const Setting& setting, Builder& to) {
  const int size = problem.size, place = (problem.rank - problem.root + size) % size;
  const int pieces = pieces_of_chain(problem.count, size_of(problem.dtype), size - 1, setting.network, setting.sharing);
  const Partition parts = Partition::even(problem.count, pieces);
  const Slice from = problem.is_root() ? problem.in : problem.out;
  for (int i = 0; i <= pieces; ++i) {
    if (place > 0 && i < pieces) to.receive(problem.level, (problem.rank + size - 1) % size, parts.part(problem.out, i));
    if (place < size - 1 && i > 0) to.send(problem.level, (problem.rank + 1) % size, parts.part(from, i - 1));
    to.next_wave();
  }
  if (problem.is_root()) to.copy(problem.out, problem.in);
  to.next_wave();
}

Cost cost_broadcast_chain(const Problem& problem, const Setting& setting) {
  const int pieces = pieces_of_chain(problem.count, size_of(problem.dtype), problem.size - 1, setting.network, setting.sharing);
  const double rounds = problem.size - 2 + pieces, n = static_cast<double>(problem.count);
  const double others = (problem.size - 1.0) / problem.size;
  return {.rounds = rounds,
          .messages = static_cast<double>(pieces),
          .path = rounds * static_cast<double>(largest_share(problem.count, pieces)),
          .sent = n,
          .mean_messages = others * pieces,
          .mean_sent = others * n,
          .mean_copied = n / problem.size,
          .copied = n};
}

// Every message has a round in which both sides take part in it, so that neither waits for a piece that the other one cannot send yet.
void build_reduce_chain(const Problem& problem, const Setting& setting, Builder& to) {
  const int rank = problem.rank, last = problem.size - 1, pieces = pieces_of_sums(problem, setting);
  const Partition parts = Partition::even(problem.count, pieces);
  const Slice buffers[] = {to.scratch(rank > 0 ? parts.largest() : 0), to.scratch(rank > 0 ? parts.largest() : 0)};
  const bool ends_here = rank == last && problem.is_root();
  const auto piece = [&](int round) { return round >= 0 && round < pieces; };
  const auto sum_of = [&](int i) {
    if (rank == 0) return parts.part(problem.in, i);
    return ends_here ? parts.part(problem.out, i) : buffers[i % 2].part(0, parts.count(i));
  };
  for (int round = 0; round < pieces + problem.size; ++round) {
    const int received = round - (rank - 1), sent = round - rank, finished = round - last;
    if (rank > 0 && piece(received)) to.receive(problem.level, rank - 1, buffers[received % 2].part(0, parts.count(received)));
    if (problem.is_root() && rank != last && piece(finished)) to.receive(problem.level, last, parts.part(problem.out, finished));
    if (!ends_here && piece(sent)) to.send(problem.level, rank == last ? problem.root : rank + 1, sum_of(sent));
    to.next_wave();
    if (rank > 0 && piece(received)) {
      const Slice arrived = buffers[received % 2].part(0, parts.count(received));
      const Slice sum = sum_of(received);
      combine_two(problem, sum, parts.part(problem.in, received), arrived, true, to);
      if (rank == last) finish_average(problem, sum, to);
    }
  }
}

Cost cost_reduce_chain(const Problem& problem, const Setting& setting) {
  const int pieces = pieces_of_sums(problem, setting), extra = problem.root == problem.size - 1 ? 0 : 1;
  const std::size_t piece = largest_share(problem.count, pieces);
  const double rounds = problem.size - 2 + pieces + extra, n = static_cast<double>(problem.count);
  // Rounds in which a root in the chain receives two pieces: of the sums below it, and of those of all.
  const double twice = extra > 0 && problem.root > 0 ? std::max(pieces - (problem.size - problem.root), 0) : 0;
  return {
      .rounds = rounds,
      .messages = static_cast<double>(extra > 0 && problem.root > 0 ? 2 * pieces : pieces),  // the root receives sums of ranks below, and all sums
      .path = (rounds + twice) * static_cast<double>(piece),
      .sent = n,
      .mean_messages = (problem.size - 1.0 + extra) * pieces / problem.size,
      .mean_sent = (problem.size - 1.0 + extra) * n / problem.size,
      .reduced = n,
      .scratch = 2 * reserved(piece)};
}

}  // namespace unisono::schedule::algorithms
