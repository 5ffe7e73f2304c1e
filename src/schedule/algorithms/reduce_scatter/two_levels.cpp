// reduce_scatter on two levels, with blocks of equal or different lengths: the ranks of a host sum the blocks that each rail carries, the rails sum
// over the hosts, and ranks beyond the rails get their blocks from those that carry them. With H hosts of L ranks each, a rail has S/L bytes and H
// ranks:
//   rounds   those of the rail's reduce_scatter
//   sent     those of the rail's reduce_scatter: (S/L) (H-1)/H
//   scratch  S, to bring the blocks into the order of the rails, and that of the rail's reduce_scatter
//   order    sums of hosts, each from left to right
#include "schedule/algorithms/two_levels.h"

namespace unisono::schedule::algorithms {

bool can_two_levels(const Problem&, const Setting& setting) { return setting.topology != nullptr && setting.topology->has_levels(); }

void build_two_level_reduce_scatter(const Problem& problem, const Setting& setting, Builder& to) {
  const RailBlocks blocks(problem, setting);
  const Counts carried = blocks.carried();
  const Slice sums = to.scratch(carried[static_cast<std::size_t>(setting.topology->local)]);
  on_host(problem, setting, Operation::reduce_scatter_v, blocks.pack(problem.in, to), sums, carried, -1, to);
  const Slice charged = blocks.has_charges() ? to.scratch(blocks.charged()) : problem.out;
  if (blocks.has_rail()) {
    build(blocks_on_rail(problem, setting, Operation::reduce_scatter_v, sums, charged, blocks.by_host()), setting_of_rail(setting), to);
  }
  if (blocks.has_charges()) blocks.hand_out(charged, problem.out, to);
  finish_average(problem, problem.out, to);
}

Cost cost_two_level_reduce_scatter(const Problem& problem, const Setting& setting) {
  return cost_of_rail_blocks(problem, setting, Operation::reduce_scatter_v);
}

}  // namespace unisono::schedule::algorithms
