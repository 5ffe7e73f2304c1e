// reduce_scatter by recursive halving (Thakur, Rabenseifner, Gropp 2005), with blocks of equal or different lengths: ranks that are far from each
// other exchange halves of the blocks first, and neighbours single blocks at last. With P ranks, of which 2^L are the core (parts.h), and f = 1 where
// P > 2^L:
//   rounds   L + 2 f
//   sent     S (P-1)/P of the S bytes that every rank gives; up to twice as much where f = 1
//   scratch  S; 2 S where f = 1
//   order    some order: each block is finished by one rank, with every rank once
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {
namespace {

/// The part of a rank of the core.
class BlockHalving {
 public:
  BlockHalving(const Problem& problem, Builder& to) : problem_(problem), to_(to), core_(problem.size), blocks_(Partition::blocks_of(problem)) {}

  void add() {
    const int rank = problem_.rank;
    if (core_.has_charge(rank)) {
      received_ = to_.scratch(blocks_.total());
      sums_ = to_.scratch(blocks_.total());
    }
    mine_ = add_charge(problem_, core_, problem_.in, received_, sums_, to_);
    int first = 0, last = core_.size;
    const int member = core_.from_rank(rank);
    for (int mask = core_.size / 2; mask > 0; mask /= 2) {
      const int middle = first + mask;
      const bool keeps_lower = member < middle;
      const std::pair<int, int> lower{first, middle}, upper{middle, last};
      std::tie(first, last) = keeps_lower ? lower : upper;
      const auto& given = keeps_lower ? upper : lower;
      halve(core_.to_rank(member ^ mask), {core_.to_rank(first), core_.to_rank(last)}, {core_.to_rank(given.first), core_.to_rank(given.second)});
    }
    if (!core_.has_charge(rank)) return finish_average(problem_, problem_.out, to_);
    finish_average(problem_, mine_, to_);
    to_.copy(problem_.out, mine_.part(0, blocks_.count(rank)));
    to_.send(problem_.level, rank + 1, mine_.part(blocks_.count(rank), blocks_.count(rank + 1)));
    to_.next_wave();
  }

 private:
  /// Exchanges partial sums: keeps those of the ranks in `kept`, gives those of the ranks in `given`. Both are ranges of ranks.
  void halve(int peer, std::pair<int, int> kept, std::pair<int, int> given) {
    const std::size_t begin = blocks_.begin(std::min(kept.first, given.first));  // of what `mine_` holds
    const auto of_mine = [&](std::pair<int, int> ranks) {
      return mine_.part(blocks_.begin(ranks.first) - begin, blocks_.begin(ranks.second) - blocks_.begin(ranks.first));
    };
    const Slice still = of_mine(kept), passed = of_mine(given);
    if (received_.count == 0) received_ = to_.scratch(still.count);
    const bool is_last = kept.second - kept.first == 1 && kept.first == problem_.rank;
    if (!is_last && sums_.count == 0) sums_ = to_.scratch(still.count);
    const Slice arrived = received_.part(0, still.count);
    to_.exchange(problem_.level, peer, arrived, peer, passed);
    // Sums of the first round go to memory of their own, later ones replace what they are made from.
    const Slice sum = is_last ? problem_.out : mine_.memory == Slice::Memory::scratch ? still : sums_.part(0, still.count);
    combine_two(problem_, sum, still, arrived, peer < problem_.rank, to_);
    mine_ = sum;
  }

  const Problem& problem_;
  Builder& to_;
  Core core_;
  Partition blocks_;
  Slice mine_ = {}, received_ = {}, sums_ = {};
};

}  // namespace

void build_reduce_scatter_halving(const Problem& problem, const Setting&, Builder& to) {
  Core(problem.size).is_outside(problem.rank) ? be_stood_for(problem, to) : BlockHalving(problem, to).add();
}

Cost cost_reduce_scatter_halving(const Problem& problem, const Setting&) {
  const Core core(problem.size);
  const std::size_t block = block_of(problem);
  const int steps = core.steps(), folds = core.folds();
  const double n = static_cast<double>(block), all = n * problem.size;
  double halved = 0;  // the blocks of the first members, which stand for others
  for (int mask = core.size / 2; mask > 0; mask /= 2) halved += core.to_rank(mask);
  const auto first_half = static_cast<std::size_t>(core.to_rank(core.size / 2));
  const double first = folds > 0 ? reserved(block * static_cast<std::size_t>(problem.size)) : reserved(block * first_half);
  return {.rounds = steps + 2.0 * folds,
          .messages = static_cast<double>(steps + folds),
          .path = halved * n + folds * (all + n),
          .sent = std::max(halved * n + folds * n, folds * all),
          .mean_messages = (core.size * steps + 2.0 * core.extra) / problem.size,
          .mean_sent = (core.size * halved * n + core.extra * (all + n)) / problem.size,
          .mean_copied = folds * n,
          .reduced = halved * n + folds * all,
          .copied = folds * n,
          .scratch = first * (core.size > 2 || folds > 0 ? 2 : 1)};
}

}  // namespace unisono::schedule::algorithms
