#include <algorithm>

#include "schedule/algorithm.h"

namespace unisono::schedule {
namespace {

bool gives_the_same_in_every_order(const Problem& problem) { return is_exact(problem.dtype, problem.op, problem.is_custom); }

/// Returns true where partial results would be rounded, or lose what an average needs.
bool needs_one_step(const Problem& problem) {
  if (problem.is_custom) return false;
  if (is_half(problem.dtype)) return problem.size > 2 || problem.op == ReduceOp::avg;
  return is_integer(problem.dtype) && problem.op == ReduceOp::avg;
}

}  // namespace

bool is_allowed(Order order, const Problem& problem, const Setting& setting) {
  if (order == Order::none || order == Order::once) return true;
  if (order == Order::engine) return !problem.is_deterministic || gives_the_same_in_every_order(problem);
  if (needs_one_step(problem)) return false;
  if (order == Order::hosts) {
    const bool are_neighbours = problem.is_custom && setting.topology != nullptr && std::ranges::is_sorted(setting.topology->hosts);
    order = are_neighbours ? Order::neighbours : Order::any;
  }
  if (problem.is_deterministic && !gives_the_same_in_every_order(problem) && order > (problem.size > 2 ? Order::left_to_right : Order::neighbours))
    return false;
  return !problem.is_custom || order <= Order::neighbours;
}

}  // namespace unisono::schedule
