// all_reduce on two levels: a reduce_scatter in each host, an all_reduce on each rail, an all_gather in each host. With H hosts of L ranks each, the
// rail has S/L bytes and H ranks:
//   rounds   those of the rail's all_reduce
//   sent     those of the rail's all_reduce: 2 (S/L) (H-1)/H
//   scratch  that of the rail's all_reduce
//   order    sums of hosts, each from left to right
#include "schedule/algorithms/two_levels.h"

namespace unisono::schedule::algorithms {

void build_two_level_all_reduce(const Problem& problem, const Setting& setting, Builder& to) {
  const auto own = static_cast<std::size_t>(setting.topology->local);
  const Counts blocks = shares_of_rails(problem, setting);
  const Slice share = problem.out.part(blocks.before(own), blocks[own]);
  on_host(problem, setting, Operation::reduce_scatter_v, problem.in, share, blocks, -1, to);
  if (!setting.topology->rail.empty()) {
    build(on_rail(problem, setting, share), setting_of_rail(setting), to);
    finish_average(problem, share, to);
  }
  on_host(problem, setting, Operation::all_gather_v, share, problem.out, blocks, -1, to);
}

Cost cost_two_level_all_reduce(const Problem& problem, const Setting& setting) {
  Problem rail = on_rail(problem, setting, {});
  rail.count = largest_share(problem.count, setting.topology->rails);
  return cost_of_levels(rail, setting, 2, problem.count);
}

}  // namespace unisono::schedule::algorithms
