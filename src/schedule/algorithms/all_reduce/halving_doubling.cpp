// all_reduce by halving and doubling (Rabenseifner 2004): in each round of the first half, two ranks that have partial sums of the same elements
// exchange halves of them; in the second half the same pairs, in reverse, exchange the finished elements. With P ranks, of which 2^L are the core
// (parts.h), and f = 1 where P > 2^L:
//   rounds   2 L + 2 f
//   sent     2 S (2^L - 1)/2^L + f S
//   scratch  S/2, or S where f = 1
//   order    halving_doubling: sums of neighbours, lower ranks on the left; swing: some order. Each element is finished by one rank
// The pairs of halving_doubling are neighbours first, then pairs of neighbours, and so on: their distances are 1, 2, 4, 8 ... Those of swing (De
// Sensi, Bonato, Saam, Hoefler, NSDI 2024) are 1, -1, 3, -5, 11 ...: even ranks go to that side, odd ones to the other. On a ring or torus of hosts
// its messages share fewer links; where all ranks are equally near to each other the two take the same time.
#include "schedule/algorithms/parts.h"

namespace unisono::schedule::algorithms {
namespace {

/// The part of one member of the core in a round of halving.
struct Halving {
  int peer;          ///< a member of the core
  bool keeps_lower;  ///< this member goes on with the lower half of the elements that it has a sum of
};

/// `halvings` are those of this rank.
void halve_and_double(const Problem& problem, const Core& core, const std::vector<Halving>& halvings, Builder& to) {
  const Partition pieces = Partition::even(problem.count, core.size);
  const int rank = problem.rank, member = core.from_rank(rank);
  const Slice received = to.scratch(core.has_charge(rank) ? problem.count : pieces.begin(core.size / 2));
  Slice mine = add_charge(problem, core, problem.in, received, problem.out, to);
  std::vector<std::pair<int, int>> kept{{0, core.size}}, given;  // the pieces after each round
  for (const auto& [peer, keeps_lower] : halvings) {
    const auto [first, last] = kept.back();
    const int middle = (first + last) / 2;
    const std::pair<int, int> lower{first, middle}, upper{middle, last};
    kept.push_back(keeps_lower ? lower : upper);
    given.push_back(keeps_lower ? upper : lower);
    const Slice sum = pieces.range(problem.out, kept.back().first, kept.back().second), arrived = received.part(0, sum.count);
    to.exchange(problem.level, core.to_rank(peer), arrived, core.to_rank(peer), pieces.range(mine, given.back().first, given.back().second));
    combine_two(problem, sum, pieces.range(mine, kept.back().first, kept.back().second), arrived, peer < member, to);
    mine = problem.out;
  }
  finish_average(problem, pieces.range(problem.out, kept.back().first, kept.back().second), to);
  for (std::size_t i = halvings.size(); i-- > 0;) {
    const int peer = core.to_rank(halvings[i].peer);
    to.exchange(problem.level, peer, pieces.range(problem.out, given[i].first, given[i].second), peer,
                pieces.range(problem.out, kept[i + 1].first, kept[i + 1].second));
  }
  if (core.has_charge(rank)) to.send(problem.level, rank + 1, problem.out);
  to.next_wave();
}

int swing_peer(int member, int step, int size) {
  const int power = (step % 2 == 0 ? -2 : 2) * (1 << step);  // (-2)^(step + 1)
  const int distance = (1 - power) / 3;
  return ((member % 2 == 0 ? member + distance : member - distance) % size + size) % size;
}

/// Returns the lowest of the members that a member's elements reach in the rounds from `step` on.
int lowest_reached(int member, int step, int steps, int size) {
  std::vector<int> reached{member};
  for (; step < steps; ++step) {
    for (std::size_t i = 0, n = reached.size(); i < n; ++i) reached.push_back(swing_peer(reached[i], step, size));
  }
  return *std::ranges::min_element(reached);
}

}  // namespace

void build_all_reduce_halving_doubling(const Problem& problem, const Setting&, Builder& to) {
  const Core core(problem.size);
  if (core.is_outside(problem.rank)) return be_stood_for(problem, to);
  const int member = core.from_rank(problem.rank);
  std::vector<Halving> halvings;
  for (int mask = 1; mask < core.size; mask <<= 1) halvings.push_back({.peer = member ^ mask, .keeps_lower = (member & mask) == 0});
  halve_and_double(problem, core, halvings, to);
}

void build_all_reduce_swing(const Problem& problem, const Setting&, Builder& to) {
  const Core core(problem.size);
  if (core.is_outside(problem.rank)) return be_stood_for(problem, to);
  const int member = core.from_rank(problem.rank), steps = core.steps();
  std::vector<Halving> halvings;
  for (int step = 0; step < steps; ++step) {
    const int peer = swing_peer(member, step, core.size);
    // The members that exchange with each other later go on with the same half.
    const bool is_lower = lowest_reached(member, step + 1, steps, core.size) < lowest_reached(peer, step + 1, steps, core.size);
    halvings.push_back({.peer = peer, .keeps_lower = is_lower});
  }
  halve_and_double(problem, core, halvings, to);
}

Cost cost_all_reduce_halving_doubling(const Problem& problem, const Setting&) {
  const Core core(problem.size);
  const std::size_t piece = largest_share(problem.count, core.size);
  const double all = static_cast<double>(problem.count), most = static_cast<double>(piece) * (core.size - 1);
  const int steps = core.steps(), folds = core.folds();
  return {.rounds = 2.0 * (steps + folds),
          .messages = 2.0 * steps + folds,
          .path = 2 * (most + folds * all),
          .sent = 2 * most + folds * all,
          .mean_messages = 2.0 * (core.size * steps + core.extra) / problem.size,
          .mean_sent = 2 * (core.size * most + core.extra * all) / problem.size,
          .reduced = most + folds * all,
          .scratch = reserved(folds > 0 ? problem.count : piece * static_cast<std::size_t>(core.size / 2))};
}

}  // namespace unisono::schedule::algorithms
