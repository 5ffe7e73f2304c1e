// all_reduce, reduce and broadcast on two levels: the ranks of a host divide the vector among themselves, each rail carries out the operation on its
// share, and the ranks of a host put the shares together again. An all_reduce and a reduce sum while they divide (reduce_scatter), in every host; a
// broadcast is divided in the root's host alone. A reduce is put together in the root's host alone. With H hosts of L ranks each, the rail has S/L
// bytes and H ranks:
//   rounds, sent   those of the rail's operation; of an all_reduce 2 (S/L) (H-1)/H bytes
//   scratch        that of the rail's operation; of a reduce 2 S/L more
//   order          sums of hosts, each from left to right
#include "schedule/algorithms/two_levels/parts.h"

namespace unisono::schedule::algorithms {

bool can_two_levels(const Problem&, const Setting& setting) { return setting.topology != nullptr && setting.topology->has_levels(); }

void build_two_level_vector(const Problem& problem, const Setting& setting, Builder& to) {
  const coordination::GroupTopology& topology = *setting.topology;
  const bool sums = reduces(problem.operation), is_reduce = problem.operation == Operation::reduce;
  const bool is_here = problem.root < 0 || topology.here(problem.root);  // the vector begins or ends in this host
  const int local_root = problem.root >= 0 && is_here ? topology.local_of(problem.root) : -1;
  const Counts blocks = shares_of_rails(problem, setting);
  const auto own = static_cast<std::size_t>(topology.local);
  const Slice share = is_reduce ? to.scratch(blocks[own]) : problem.out.part(blocks.before(own), blocks[own]);
  const Slice result = is_reduce ? to.scratch(is_here ? blocks[own] : 0) : share;
  if (sums) {
    on_host(problem, setting, Operation::reduce_scatter_v, problem.in, share, blocks, -1, to);
  } else if (is_here) {
    on_host(problem, setting, Operation::scatter_v, problem.is_root() ? problem.in : problem.in.part(0, 0), share, blocks, local_root, to);
  }
  if (!topology.rail.empty()) {
    Problem rail = on_rail(problem, setting, share);
    rail.out = result;
    rail.is_in_place = !is_reduce;
    build(rail, setting_of_rail(setting), to);
    if (sums && !is_reduce) finish_average(problem, share, to);
  }
  if (!is_reduce) return on_host(problem, setting, Operation::all_gather_v, share, problem.out, blocks, -1, to);
  if (is_here) on_host(problem, setting, Operation::gather_v, result, problem.out, blocks, local_root, to);
  if (problem.is_root()) finish_average(problem, problem.out, to);
}

Cost cost_two_level_vector(const Problem& problem, const Setting& setting) {
  Problem rail = on_rail(problem, setting, {});
  rail.count = largest_share(problem.count, setting.topology->rails);
  Cost cost = cost_of_levels(rail, setting, 2, problem.count);
  if (problem.operation == Operation::reduce) cost.scratch += 2 * reserved(rail.count);
  return cost;
}

}  // namespace unisono::schedule::algorithms
