// scatter on two levels, with blocks of equal or different lengths: the root gives the ranks of its host what their rails carry, each rail scatters
// over the hosts, and ranks beyond the rails get their blocks from those that carry them. With H hosts of L ranks each, a rail has S/L of the root's
// S bytes:
//   rounds, sent   those of the rail's scatter
//   scratch        on the root S, to bring the blocks into the order of the rails; S/L on the other ranks of its host
#include "schedule/algorithms/two_levels.h"

namespace unisono::schedule::algorithms {

void build_two_level_scatter(const Problem& problem, const Setting& setting, Builder& to) {
  const RailBlocks blocks(problem, setting);
  Slice of_rail = problem.in.part(0, 0);
  if (setting.topology->here(problem.root)) {
    const Counts carried = blocks.carried();
    of_rail = to.scratch(carried[static_cast<std::size_t>(setting.topology->local)]);
    const Slice all = problem.is_root() ? blocks.pack(problem.in, to) : of_rail.part(0, 0);
    on_host(problem, setting, Operation::scatter_v, all, of_rail, carried, setting.topology->local_of(problem.root), to);
  }
  const Slice charged = blocks.has_charges() ? to.scratch(blocks.charged()) : problem.out;
  if (blocks.has_rail()) {
    build(blocks_on_rail(problem, setting, Operation::scatter_v, of_rail, charged, blocks.by_host()), setting_of_rail(setting), to);
  }
  if (blocks.has_charges()) blocks.hand_out(charged, problem.out, to);
}

Cost cost_two_level_scatter(const Problem& problem, const Setting& setting) { return cost_of_rail_blocks(problem, setting, Operation::scatter_v); }

}  // namespace unisono::schedule::algorithms
