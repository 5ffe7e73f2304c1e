// scan and exscan on two levels, where the ranks of each host are neighbours: a prefix in each host, an exclusive prefix of the hosts' sums on each
// rail, and each rank puts the sum of the hosts before its own on the left. With H hosts of L ranks each, the rail has S/L bytes and H ranks:
//   rounds, sent   those of the rail's exscan
//   scratch        S (1 + 2/L), and that of the rail's exscan
//   order          sums of hosts, each from left to right
#include "schedule/algorithms/two_levels/parts.h"

namespace unisono::schedule::algorithms {

bool can_two_level_scan(const Problem& problem, const Setting& setting) {
  return can_two_levels(problem, setting) && std::ranges::is_sorted(setting.topology->hosts);
}

void build_two_level_scan(const Problem& problem, const Setting& setting, Builder& to) {
  const coordination::GroupTopology& topology = *setting.topology;
  const bool is_exclusive = problem.operation == Operation::exscan, is_alone = topology.members.size() == 1;
  const Counts blocks = shares_of_rails(problem, setting);
  const std::size_t own = blocks[static_cast<std::size_t>(topology.local)];
  const Slice share = to.scratch(own), before = to.scratch(own);
  on_host(problem, setting, Operation::reduce_scatter_v, problem.in, share, blocks, -1, to);
  if (!topology.rail.empty()) {
    Problem rail = on_rail(problem, setting, share);
    rail.operation = Operation::exscan;
    rail.is_in_place = false;
    rail.out = before;
    build(rail, setting_of_rail(setting), to);
  }
  if (!is_alone) to.engine(problem_of_host(problem, setting, problem.operation, problem.in, problem.out));
  else if (!is_exclusive) to.reduce(problem.op, problem.out, problem.in, 1, 1);
  to.next_wave();
  if (topology.host() == 0) return;  // there is nothing before it
  const Slice prefix = to.scratch(problem.count);
  on_host(problem, setting, Operation::all_gather_v, before, prefix, blocks, -1, to);
  if (is_exclusive && topology.local == 0) to.copy(problem.out, prefix);
  else to.combine(problem.op, problem.out, prefix, problem.out);
  to.next_wave();
}

Cost cost_two_level_scan(const Problem& problem, const Setting& setting) {
  const std::size_t share = largest_share(problem.count, setting.topology->rails);
  Problem rail = on_rail(problem, setting, {});
  rail.operation = Operation::exscan;
  rail.count = share;
  Cost cost = cost_of_levels(rail, setting, 3, problem.count);
  const auto n = static_cast<double>(problem.count);
  cost.reduced += n;
  cost.copied += n;
  cost.mean_copied += n;
  cost.scratch += 2 * reserved(share) + reserved(problem.count);
  return cost;
}

}  // namespace unisono::schedule::algorithms
