// all_reduce on two levels: a reduce_scatter in each host, an all_reduce on each rail, an all_gather in each host. With H hosts of L ranks each, a
// rank sends 2 (S/L) (H-1)/H bytes between hosts. It is not used for halves and integer averages, whose partial sums would be rounded more than once.
#include "schedule/algorithms/two_levels.h"

namespace unisono::schedule::algorithms {

bool can_two_level_all_reduce(const Problem& problem, const Setting& setting) {
  if (setting.topology == nullptr || !setting.topology->has_levels()) return false;
  return problem.is_custom || !(is_half(problem.dtype) || (is_integer(problem.dtype) && problem.op == ReduceOp::avg));
}

void build_two_level_all_reduce(const Problem& problem, const Setting& setting, Builder& to) {
  const auto own = static_cast<std::size_t>(setting.topology->local);
  const Counts blocks = shares_of_rails(problem, setting);
  const Slice share = problem.out.part(blocks.before(own), blocks[own]);
  on_host(problem, setting, Operation::reduce_scatter_v, problem.in, share, blocks, -1, to);
  if (!setting.topology->rail.empty()) {
    build(on_rail(problem, setting, share), {.engine = setting.rail}, to);
    if (problem.op == ReduceOp::avg && !problem.is_custom) {
      to.divide(share, static_cast<std::size_t>(setting.topology->size()));
      to.next_wave();
    }
  }
  on_host(problem, setting, Operation::all_gather_v, share, problem.out, blocks, -1, to);
}

}  // namespace unisono::schedule::algorithms
