// broadcast on two levels: the root's host scatters, each rail broadcasts its share, each host gathers the shares. A rank of the root's host sends
// (S/L) (H-1) bytes between hosts, where the rail's broadcast is a direct exchange.
#include "schedule/algorithms/two_levels.h"

namespace unisono::schedule::algorithms {

bool can_two_level_broadcast(const Problem&, const Setting& setting) { return setting.topology != nullptr && setting.topology->has_levels(); }

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
    build(rail, {.engine = setting.rail}, to);
  }
  on_host(problem, setting, Operation::all_gather_v, share, problem.out, blocks, -1, to);
}

}  // namespace unisono::schedule::algorithms
