// gather on two levels, with blocks of equal or different lengths: each rail gathers the blocks that it carries on the root's host, whose ranks pass
// them to the root. With H hosts of L ranks each, a rail has S/L of the S bytes that the root gets, and H ranks:
//   rounds, sent   those of the rail's gather
//   scratch        on the root S, since the blocks come in the order of the rails; S/L on the other ranks of its host
#include "schedule/algorithms/two_levels.h"

namespace unisono::schedule::algorithms {

void build_two_level_gather(const Problem& problem, const Setting& setting, Builder& to) {
  const RailBlocks blocks(problem, setting);
  const bool is_here = setting.topology->here(problem.root);
  Slice charged = problem.in;
  if (blocks.has_charges()) {
    charged = to.scratch(blocks.charged());
    blocks.take_in(problem.in, charged, to);
  }
  const Counts carried = blocks.carried();
  const Slice of_rail = to.scratch(is_here ? carried[static_cast<std::size_t>(setting.topology->local)] : 0);
  if (blocks.has_rail()) {
    build(blocks_on_rail(problem, setting, Operation::gather_v, charged, of_rail, blocks.by_host()), setting_of_rail(setting), to);
  }
  if (!is_here) return;
  const bool unpacks = problem.is_root() && !blocks.is_in_order();
  const Slice all = unpacks ? to.scratch(blocks.total()) : problem.out;
  on_host(problem, setting, Operation::gather_v, of_rail, all, carried, setting.topology->local_of(problem.root), to);
  if (unpacks) blocks.unpack(all, problem.out, to);
}

Cost cost_two_level_gather(const Problem& problem, const Setting& setting) { return cost_of_rail_blocks(problem, setting, Operation::gather_v); }

}  // namespace unisono::schedule::algorithms
