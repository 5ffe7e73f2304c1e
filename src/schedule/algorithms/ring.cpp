// all_reduce (Patarasuk and Yuan 2009), reduce_scatter and all_gather on a ring; the latter two with blocks of equal or different lengths.
//                                                       rounds     sent           scratch
//   reduce_scatter  sum_around                          P-1        S (P-1)/P      two blocks
//   all_gather      pass_around                         P-1        S (P-1)/P      none
//   all_reduce      sum_around of P parts, pass_around  2 (P-1)    2 S (P-1)/P    2 S/P
// order: block b is summed from rank b + 1 on around the ring to rank b: each block by one rank after the other, so all ranks get the same bits.
//
// Rank r sends to rank r + 1 and receives from rank r - 1, and the P blocks of the elements go around in P-1 rounds. With four ranks, where
// "b2(3 0)" is block 2 as the sum of the elements of ranks 3 and 0, sum_around on rank 0 (next = 1, previous = 3) is:
//
//   passed before                       sent to 1   received from 3   combined with its own       passed then
//   b3(0), the block of `previous`      b3(0)       b2(3)             b2(3) + b2(0)               b2(3 0)       step 2, block 2
//   b2(3 0), in `received`              b2(3 0)     b1(2 3)           b1(2 3) + b1(0)             b1(2 3 0)     step 3, block 1
//   b1(2 3 0), in `other`               b1(2 3 0)   b0(1 2 3)         b0(1 2 3) + b0(0)           b0(1 2 3 0)   step 4, block 0: in `out`
//
// The sum of block b begins at rank b + 1, which sends it unchanged in the first round, and ends at rank b. The partial sum that was made in one
// round is sent in the next one, while another one arrives: so there are two buffers, `received` and `other`, which change places. All ranks do the
// same at the same time, one block apart: each link carries one block in each round.
//
// pass_around then hands the finished blocks out. On rank 0 (`sent` goes 0, 3, 2):
//
//   sent to 1: block 0   received from 3: block 3     step 1
//   sent to 1: block 3   received from 3: block 2     step 2
//   sent to 1: block 2   received from 3: block 1     step 3
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {
namespace {

/// Passes block after block around the ring, so that every rank gets all of them in `out`. Each has its own there already. P-1 rounds.
void pass_around(const Problem& problem, const Partition& blocks, const Slice& out, Builder& to) {
  const int next = (problem.rank + 1) % problem.size, previous = (problem.rank + problem.size - 1) % problem.size;
  for (int sent = problem.rank, step = 1; step < problem.size; ++step) {
    const int received = (sent + problem.size - 1) % problem.size;
    to.exchange(problem.level, previous, blocks.part(out, received), next, blocks.part(out, sent));
    sent = received;
  }
}

/// Passes partial sums around the ring: that of block b begins at rank b + 1 and ends at rank b, in `out`. P-1 rounds.
void sum_around(const Problem& problem, const Partition& blocks, const Slice& out, Builder& to) {
  const int size = problem.size, next = (problem.rank + 1) % size, previous = (problem.rank + size - 1) % size;
  Slice received = to.scratch(blocks.largest()), other = to.scratch(blocks.largest());
  Slice passed = blocks.part(problem.in, previous);
  for (int step = 2; step <= size; ++step) {
    const int block = (problem.rank + size - step + size) % size;
    const Slice arrived = received.part(0, blocks.count(block));
    to.exchange(problem.level, previous, arrived, next, passed);
    passed = step == size ? out : arrived;
    combine_two(problem, passed, blocks.part(problem.in, block), arrived, true, to);
    std::swap(received, other);  // the partial sum in the first is still to be sent
  }
}

}  // namespace

void build_all_reduce_ring(const Problem& problem, const Setting&, Builder& to) {
  const Partition blocks = Partition::even(problem.count, problem.size);
  const Slice own = blocks.part(problem.out, problem.rank);
  sum_around(problem, blocks, own, to);
  finish_average(problem, own, to);
  pass_around(problem, blocks, problem.out, to);
}

Cost cost_all_reduce_ring(const Problem& problem, const Setting&) {
  const std::size_t block = largest_share(problem.count, problem.size);
  const double others = problem.size - 1, n = static_cast<double>(block);
  return evenly({.rounds = 2 * others,
                 .messages = 2 * others,
                 .path = 2 * others * n,
                 .sent = 2 * others * n,
                 .reduced = others * n,
                 .scratch = 2 * reserved(block)});
}

void build_reduce_scatter_ring(const Problem& problem, const Setting&, Builder& to) {
  sum_around(problem, Partition::blocks_of(problem), problem.out, to);
  finish_average(problem, problem.out, to);
}

Cost cost_reduce_scatter_ring(const Problem& problem, const Setting&) {
  const std::size_t block = block_of(problem);
  const double others = problem.size - 1, n = static_cast<double>(block);
  return evenly(
      {.rounds = others, .messages = others, .path = others * n, .sent = others * n, .reduced = others * n, .scratch = 2 * reserved(block)});
}

void build_all_gather_ring(const Problem& problem, const Setting&, Builder& to) {
  const Partition blocks = Partition::blocks_of(problem);
  to.copy(blocks.part(problem.out, problem.rank), problem.in);
  to.next_wave();
  pass_around(problem, blocks, problem.out, to);
}

Cost cost_all_gather_ring(const Problem& problem, const Setting&) {
  const double others = problem.size - 1, n = static_cast<double>(block_of(problem));
  return evenly({.rounds = others, .messages = others, .path = others * n, .sent = others * n, .copied = n});
}

}  // namespace unisono::schedule::algorithms
