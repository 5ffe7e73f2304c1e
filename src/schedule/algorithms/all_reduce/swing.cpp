// all_reduce by Swing (De Sensi, Bonato, Saam, Hoefler, NSDI 2024): halving and doubling among ranks whose distances are 1, -1, 3, -5, 11 ... instead
// of 1, 2, 4, 8 ...: even ranks go to that side, odd ones to the other. On a ring or torus of hosts the messages share fewer links than those of
// halving_doubling; where all ranks are equally near to each other the two take the same time. Rounds, bytes and memory are those of
// halving_doubling.
//   order    some order: each element is finished by one rank, with every rank once
#include "schedule/algorithms/halving_doubling.h"

namespace unisono::schedule::algorithms {
namespace {

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

void build_all_reduce_swing(const Problem& problem, const Setting&, Builder& to) {
  const Core core(problem.size);
  if (core.is_outside(problem.rank)) return be_stood_for(problem, to);
  const int member = core.from_rank(problem.rank), steps = core.steps();
  std::vector<Halving> halvings;
  for (int step = 0; step < steps; ++step) {
    const int peer = swing_peer(member, step, core.size);
    // The members that exchange with each other later go on with the same half.
    const bool is_lower = lowest_reached(member, step + 1, steps, core.size) < lowest_reached(peer, step + 1, steps, core.size);
    halvings.push_back({.peer = peer, .keeps_lower = is_lower, .received_is_left = peer < member});
  }
  halve_and_double(problem, core, halvings, to);
}

}  // namespace unisono::schedule::algorithms
