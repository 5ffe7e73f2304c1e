// reduce on two levels: a reduce_scatter in each host, a reduce on each rail to the root's host, whose ranks pass the shares to the root. With H
// hosts of L ranks each, the rail has S/L bytes and H ranks:
//   rounds, sent   those of the rail's reduce
//   scratch        2 S/L, and that of the rail's reduce
//   order          sums of hosts, each from left to right
#include "schedule/algorithms/two_levels.h"

namespace unisono::schedule::algorithms {

void build_two_level_reduce(const Problem& problem, const Setting& setting, Builder& to) {
  const coordination::GroupTopology& topology = *setting.topology;
  const Counts blocks = shares_of_rails(problem, setting);
  const std::size_t own = blocks[static_cast<std::size_t>(topology.local)];
  const bool is_here = topology.here(problem.root);
  const Slice share = to.scratch(own), sum = to.scratch(is_here ? own : 0);
  on_host(problem, setting, Operation::reduce_scatter_v, problem.in, share, blocks, -1, to);
  if (!topology.rail.empty()) {
    Problem rail = on_rail(problem, setting, share);
    rail.is_in_place = false;
    rail.out = sum;
    rail.root = topology.host_of(problem.root);
    build(rail, setting_of_rail(setting), to);
  }
  if (!is_here) return;
  on_host(problem, setting, Operation::gather_v, sum, problem.out, blocks, topology.local_of(problem.root), to);
  if (problem.is_root()) finish_average(problem, problem.out, to);
}

Cost cost_two_level_reduce(const Problem& problem, const Setting& setting) {
  const std::size_t share = largest_share(problem.count, setting.topology->rails);
  Problem rail = on_rail(problem, setting, {});
  rail.root = setting.topology->host_of(problem.root);
  rail.count = share;
  Cost cost = cost_of_levels(rail, setting, 2, problem.count);
  cost.scratch += 2 * reserved(share);
  return cost;
}

}  // namespace unisono::schedule::algorithms
