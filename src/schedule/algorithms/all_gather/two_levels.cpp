// all_gather on two levels, with blocks of equal or different lengths: each rail gathers the blocks that it carries over the hosts, and the ranks of
// a host gather what the rails have. With H hosts of L ranks each, a rail has S/L of the S bytes that every rank gets, and H ranks:
//   rounds   those of the rail's all_gather
//   sent     those of the rail's all_gather: (S/L) (H-1)/H
//   scratch  S (1 + 1/L), since the blocks come in the order of the rails, and that of the rail's all_gather
#include "schedule/algorithms/two_levels.h"

namespace unisono::schedule::algorithms {

void build_two_level_all_gather(const Problem& problem, const Setting& setting, Builder& to) {
  const RailBlocks blocks(problem, setting);
  Slice charged = problem.in;
  if (blocks.has_charges()) {
    charged = to.scratch(blocks.charged());
    blocks.take_in(problem.in, charged, to);
  }
  const Counts carried = blocks.carried();
  const Slice of_rail = to.scratch(carried[static_cast<std::size_t>(setting.topology->local)]);
  if (blocks.has_rail()) {
    build(blocks_on_rail(problem, setting, Operation::all_gather_v, charged, of_rail, blocks.by_host()), setting_of_rail(setting), to);
  }
  const Slice all = blocks.is_in_order() ? problem.out : to.scratch(blocks.total());
  on_host(problem, setting, Operation::all_gather_v, of_rail, all, carried, -1, to);
  if (!blocks.is_in_order()) blocks.unpack(all, problem.out, to);
}

Cost cost_two_level_all_gather(const Problem& problem, const Setting& setting) {
  return cost_of_rail_blocks(problem, setting, Operation::all_gather_v);
}

}  // namespace unisono::schedule::algorithms
