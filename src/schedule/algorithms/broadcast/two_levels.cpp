// broadcast on two levels: the root's host scatters, each rail broadcasts its share, each host gathers the shares. With H hosts of L ranks each, the
// rail has S/L bytes and H ranks:
//   rounds, sent, scratch   those of the rail's broadcast
#include "schedule/algorithms/two_levels.h"

namespace unisono::schedule::algorithms {

void build_two_level_broadcast(const Problem& problem, const Setting& setting, Builder& to) {
  const coordination::GroupTopology& topology = *setting.topology;
  const auto own = static_cast<std::size_t>(topology.local);
  const Counts blocks = shares_of_rails(problem, setting);
  const Slice share = problem.out.part(blocks.before(own), blocks[own]);
  if (topology.here(problem.root)) {
    on_host(problem, setting, Operation::scatter_v, problem.is_root() ? problem.in : problem.in.part(0, 0), share, blocks,
            topology.local_of(problem.root), to);
  }
  if (!topology.rail.empty()) {
    Problem rail = on_rail(problem, setting, share);
    rail.root = topology.host_of(problem.root);
    build(rail, setting_of_rail(setting), to);
  }
  on_host(problem, setting, Operation::all_gather_v, share, problem.out, blocks, -1, to);
}

Cost cost_two_level_broadcast(const Problem& problem, const Setting& setting) {
  Problem rail = on_rail(problem, setting, {});
  rail.root = setting.topology->host_of(problem.root);
  rail.count = largest_share(problem.count, setting.topology->rails);
  return cost_of_levels(rail, setting, 2, problem.count);
}

}  // namespace unisono::schedule::algorithms
